"""Sessions and processes for the tests, all on the wheel that is installed.

``LAKESTEP_TEST_API=connect`` gives every test a Spark Connect session in place of a Classic one.
"""

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import slices
import transactions
from arena import Arena
from driver import Pool
from fast_start import INTERPRETED
from lakestep import _build
from plain_delta import PlainDelta
from small_session import small_session

# Else Spark's workers are whatever `python3` is on the path.
os.environ["PYSPARK_PYTHON"] = sys.executable

DURATIONS = Path(__file__).with_name("durations.json")
SUPPORT = Path(__file__).with_name("support")
CONNECT = os.environ.get("LAKESTEP_TEST_API") == "connect"
_kept: list[object] = []


def pytest_configure(config):
    config.addinivalue_line("markers", "long: full counts, for `make test-long`")
    config.addinivalue_line("markers", "classic: needs the JVM in the same process")
    config.addinivalue_line("markers", "connect: needs a session of Spark Connect")
    config.addinivalue_line("markers", "smoke: a little of everything, for `make quick`")
    config.addinivalue_line("markers", "sliced(of=12): one slice of its cases, see slices.py")
    if CONNECT:
        os.environ["SPARK_API_MODE"] = "connect"


def pytest_report_header():
    return slices.header()


def pytest_collection_modifyitems(config, items):
    items[:], others = slices.split(items)
    if others:
        config.hook.pytest_deselected(items=others)
    # The longest files first: two workers end at nearly the same time.
    seconds = json.loads(DURATIONS.read_text())
    items.sort(key=lambda item: -seconds.get(item.path.name, 0))
    other, reason = (
        ("classic", "Spark Connect has no JVM to look into")
        if CONNECT
        else ("connect", "a matter of Spark Connect alone")
    )
    for item in items:
        if item.get_closest_marker(other):
            item.add_marker(pytest.mark.skip(reason=reason))


@pytest.fixture(scope="session")
def spark(tmp_path_factory):
    session = small_session(tmp_path_factory.mktemp("spark"))
    yield session
    session.stop()


@pytest.fixture(scope="session")
def plain(tmp_path_factory):
    """Spark and Delta without Lakestep, in another process."""
    client = PlainDelta(tmp_path_factory.mktemp("plain"), str(_build.local_delta_jars()))
    yield client
    client.close()


@pytest.fixture(scope="session")
def arena(spark, plain, tmp_path_factory):
    """Ready-made tables, and what plain Delta makes of them."""
    return Arena(spark, plain, tmp_path_factory.mktemp("tables"))


@pytest.fixture
def compiled(spark):
    """Spark compiles the queries of a test, as it does for users."""
    for key in INTERPRETED:
        spark.conf.unset(key)
    yield
    for key, value in INTERPRETED.items():
        spark.conf.set(key, value)


@pytest.fixture
def no_transaction_left(spark):
    yield
    transactions.abandon(spark)


@pytest.fixture
def other_session(spark):
    """A second session on the same warehouse: another client. It leaves no transaction."""
    session = _another_session(spark)
    yield session
    transactions.abandon(session)


def _another_session(spark):
    if not CONNECT:
        return spark.newSession()
    if hasattr(spark, "cloneSession"):
        return spark.cloneSession()
    from pyspark.sql.connect.session import SparkSession

    # In PySpark 4.0 a session that goes away ends the threads of all.
    _kept.append(SparkSession.builder.remote("sc://localhost:15002").create())
    return _kept[-1]


@pytest.fixture
def table(spark):
    """Makes Delta tables with columns id and v, and drops them afterwards."""
    made = []

    def make(name, rows=((1, "a"), (2, "b"))):
        spark.sql(f"CREATE TABLE {name} (id INT, v STRING) USING delta")
        made.append(name)
        if rows:
            spark.sql(f"INSERT INTO {name} VALUES " + ", ".join(map(str, rows)))
        return name

    yield make
    for name in made:
        spark.sql(f"DROP TABLE IF EXISTS {name}")


@pytest.fixture
def rows():
    def read(session, table):
        return sorted(tuple(row) for row in session.sql(f"SELECT * FROM {table}").collect())

    return read


@pytest.fixture
def python():
    """Runs code in a Python process of its own; what it passes to `answer` comes back."""

    def run(code, **environment):
        prelude = "import json, lakestep\ndef answer(x): print('ANSWER', json.dumps(x))\n"
        kept = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("LAKESTEP_", "SPARK_", "PYSPARK_SUBMIT", "PYSPARK_GATEWAY"))
        }
        done = subprocess.run(
            [sys.executable, "-c", prelude + textwrap.dedent(code)],
            env={**kept, "PYTHONPATH": str(SUPPORT), **environment},
            capture_output=True,
            text=True,
            timeout=300,
        )
        answers = [line for line in done.stdout.splitlines() if line.startswith("ANSWER ")]
        assert done.returncode == 0 and answers, done.stdout + done.stderr
        return json.loads(answers[-1].removeprefix("ANSWER "))

    return run


@pytest.fixture(scope="session")
def pool(tmp_path_factory):
    """Driver processes for the whole run."""
    made = Pool(tmp_path_factory.mktemp("drivers"))
    yield made
    made.close()


@pytest.fixture
def drivers(pool):
    """Lends driver processes; a test may kill them."""
    lent = []

    def take(number, spare=False):
        taken = pool.take(number, spare)
        lent.extend(taken)
        return taken

    yield take
    pool.give_back(lent)


@pytest.fixture
def schema(spark, other, request):
    name = f"names_{abs(hash(request.node.name)) % 10**8}"
    spark.sql(f"CREATE SCHEMA {name}")
    for session in (spark, other):
        session.sql(f"USE {name}")
    yield name
    for session in (spark, other):
        transactions.abandon(session)
        session.sql("USE default")
    spark.sql(f"DROP SCHEMA IF EXISTS {name} CASCADE")


@pytest.fixture(scope="module")
def other(spark):
    return spark.newSession()
