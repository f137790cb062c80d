"""What follows a COMMIT is done before its driver has ended; what ends within one is told."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import files_on_disk
import small_session
from built import TEST_JAR

pytestmark = [pytest.mark.classic, pytest.mark.sliced(3)]

PROGRAM = """
import sys
from pathlib import Path

from small_session import small_session

spark = small_session(Path(sys.argv[1]))
names = [f"t{number}" for number in range(8)]
for name in names:
    spark.sql(f"CREATE TABLE {name} (id INT) USING delta")
spark.sql("BEGIN")
for name in names:
    spark.sql(f"INSERT INTO {name} VALUES (1)")
spark.sql("COMMIT")
if sys.argv[2] == "stop":
    spark.stop()
"""

OPEN = """
import sys
from pathlib import Path

from small_session import small_session

spark = small_session(Path(sys.argv[1]))
spark.sql("CREATE TABLE t (id INT) USING delta")
spark.sql("BEGIN")
spark.sql("INSERT INTO t VALUES (1)")
spark.stop()
spark = small_session(Path(sys.argv[1]))
path = f"{sys.argv[1]}/warehouse/t"
assert spark.read.format("delta").load(path).count() == 0
spark.sql(f"BEGIN; INSERT INTO delta.`{path}` VALUES (2); COMMIT")
assert spark.read.format("delta").load(path).collect()[0][0] == 2
(ended,) = spark.sql("VACUUM TRANSACTIONS RETAIN 0 HOURS").collect()
spark.stop()
"""

HALTED = """
import os
import signal
import sys
import threading
from pathlib import Path

import lakestep
from small_session import small_session

folder = Path(sys.argv[1])
settings = {"spark.lakestep.commit.observer": "io.lakestep.testing.HaltingObserver"}
spark = small_session(folder, settings | {"spark.jars": sys.argv[2]})
names = ["one", "two"]
for name in names:
    spark.sql(f"CREATE TABLE {name} (id INT) USING delta")
"""

CUT_OFF = """
import contextlib

client = spark.cloneSession()
met = []


def load():
    try:
        with lakestep.transaction(client) as txn:
            met.append(txn.id)
            for name in names:
                client.sql(f"INSERT INTO {name} VALUES (1)")
    except Exception as error:
        met.append(error)


committing = threading.Thread(target=load)
committing.start()
(folder / "at").read_text()
client.interruptAll()
# Spark's server takes it for an error of its own that something still runs.
with contextlib.suppress(Exception):
    client.client.release_session()
(folder / "go").write_text("\\n")
committing.join()
transaction, lost = met
assert isinstance(lost, lakestep.StateUnknownError), repr(lost)
assert lost.getCondition() == "LAKESTEP_CONNECTION_LOST", lost
assert transaction in str(lost) and "DESCRIBE TRANSACTION" in str(lost), lost
spark.sql("BEGIN")
seen = [spark.table(name).count() for name in names]
spark.sql("ROLLBACK")
again = [spark.table(name).count() for name in names]
(state,) = {row["state"] for row in spark.sql(f"DESCRIBE TRANSACTION '{transaction}'").collect()}
assert (seen, again, state) == ([1, 1], [1, 1], "COMPLETED"), (seen, again, state)
spark.sql("BEGIN; INSERT INTO one VALUES (2); INSERT INTO two VALUES (2); COMMIT")
assert [spark.table(name).count() for name in names] == [n + 1 for n in again]
"""

LEFT = """
import contextlib

client = spark.cloneSession()
halted = threading.Thread(target=(folder / "at").read_text)
halted.start()
with lakestep.transaction(client):
    for name in names:
        client.sql(f"INSERT INTO {name} VALUES (1)")
halted.join()
with contextlib.suppress(Exception):
    client.client.release_session()
(folder / "go").write_text("\\n")
assert (folder / "at").read_text().strip() == "checksumsPut:2"
for name in names:
    checksums = sorted((folder / "warehouse" / name / "_delta_log").glob("[0-9]*.crc"))
    assert [int(file.stem) for file in checksums] == [0, 1], checksums
(folder / "go").write_text("\\n")
"""

INTERRUPTED = """
of_spark = signal.getsignal(signal.SIGINT)
interrupted = threading.Event()


def interrupt(*signalled):
    interrupted.set()
    of_spark(*signalled)


def press():
    (folder / "at").read_text()
    os.kill(os.getpid(), signal.SIGINT)
    interrupted.wait()
    (folder / "go").write_text("\\n")


signal.signal(signal.SIGINT, interrupt)
pressing = threading.Thread(target=press)
pressing.start()
try:
    with lakestep.transaction(spark) as txn:
        for name in names:
            spark.sql(f"INSERT INTO {name} VALUES (1)")
    raise AssertionError("it was not interrupted")
except KeyboardInterrupt as interrupt:
    pressing.join()
    notes = getattr(interrupt, "__notes__", [])
spark.sql("BEGIN")
seen = [spark.table(name).count() for name in names]
spark.sql("ROLLBACK")
(state,) = {row["state"] for row in spark.sql(f"DESCRIBE TRANSACTION '{txn.id}'").collect()}
assert (seen, state) == ([1, 1], "COMPLETED"), (seen, state, notes)
"""

KILLED = """
jvm = spark._jvm.java.lang.ProcessHandle.current().pid()


def kill():
    (folder / "at").read_text()
    os.kill(jvm, signal.SIGKILL)


killing = threading.Thread(target=kill)
killing.start()
try:
    with lakestep.transaction(spark) as txn:
        for name in names:
            spark.sql(f"INSERT INTO {name} VALUES (1)")
    raise AssertionError("the JVM lives")
except lakestep.StateUnknownError as lost:
    assert lost.getCondition() == "LAKESTEP_CONNECTION_LOST", lost
    assert lost.getMessageParameters() == {"transaction": txn.id}, lost
    assert txn.is_open is False
    (folder / "transaction").write_text(txn.id)
killing.join()
"""


@pytest.mark.parametrize("end", ["stop", "exit"])
def test_a_driver_that_ends_leaves_nothing_staged_and_every_checksum(tmp_path, end):
    support = str(Path(small_session.__file__).parent)
    environment = os.environ | {"PYTHONPATH": support}
    command = [sys.executable, "-c", PROGRAM, str(tmp_path), end]
    # The JVM ends after Python: its end is that of the pipe, which it holds too.
    subprocess.run(command, env=environment, cwd=tmp_path, check=True, stdout=subprocess.PIPE)
    tables = sorted((tmp_path / "warehouse").glob("t*"))
    assert len(tables) == 8
    for table in tables:
        assert files_on_disk.staged_commits(table) == []
        assert sorted(file.name for file in (table / "_delta_log").glob("[0-9]*.crc")) == [
            f"{version:020}.crc" for version in range(2)
        ]
    assert not any((tmp_path / "timeline" / "transactions").glob("*.json"))


def test_a_session_that_stops_commits_nothing_of_its_transaction(tmp_path):
    environment = os.environ | {"PYTHONPATH": str(Path(small_session.__file__).parent)}
    command = [sys.executable, "-c", OPEN, str(tmp_path)]
    subprocess.run(command, env=environment, cwd=tmp_path, check=True, stdout=subprocess.PIPE)
    assert files_on_disk.staged_commits(tmp_path / "warehouse" / "t") == []
    assert not any((tmp_path / "timeline" / "transactions").glob("*.json"))


def cut_off(folder, program, step, **more):
    for pipe in ("at", "go"):
        os.mkfifo(folder / pipe)
    halt = {"LAKESTEP_HALT_AT": step, "LAKESTEP_HALT_FOLDER": str(folder)}
    environment = os.environ | {"PYTHONPATH": str(Path(small_session.__file__).parent)} | halt
    command = [sys.executable, "-c", HALTED + program, str(folder), str(TEST_JAR)]
    subprocess.run(command, env=environment | more, cwd=folder, check=True, stdout=subprocess.PIPE)


@pytest.mark.parametrize("step", ["beforeOrder:1", "published:1"])
def test_the_commit_of_a_session_of_connect_that_is_cut_off_goes_on(tmp_path, step):
    cut_off(tmp_path, CUT_OFF, step, SPARK_API_MODE="connect")


def test_what_follows_a_commit_is_done_once_its_session_of_connect_has_ended(tmp_path):
    cut_off(tmp_path, LEFT, "beforeChecksums:1,checksumsPut:2", SPARK_API_MODE="connect")


@pytest.mark.parametrize("step", ["beforeOrder:1", "published:1"])
def test_a_commit_that_is_interrupted_goes_on(tmp_path, step):
    cut_off(tmp_path, INTERRUPTED, step)


@pytest.mark.parametrize(("step", "entries"), [("beforeOrder:1", 0), ("published:1", 1)])
def test_a_commit_whose_jvm_is_killed_says_that_it_lost_the_connection(tmp_path, step, entries):
    cut_off(tmp_path, KILLED, step)
    code = "import sys; from lakestep import _cli; sys.exit(_cli.main(sys.argv[1:]))"
    command = [sys.executable, "-c", code, "timeline", str(tmp_path / "timeline"), "--json"]
    told = subprocess.run(command, stdout=subprocess.PIPE, text=True).stdout
    transaction = (tmp_path / "transaction").read_text()
    ids = [json.loads(line)["transaction_id"] for line in told.splitlines()]
    assert ids == [transaction] * entries
