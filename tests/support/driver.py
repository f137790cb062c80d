"""Spark drivers in processes of their own, which take calls over a pipe and can be killed.

`Driver` is the test's end of the pipe; run as a program, this file is the other end. A call names a
function as ``module:name`` and gets a session as its first argument; calls of one session run one
after another, those of different sessions at once. Every session has a timeline root of its own
choosing, so that one driver serves many tests.
"""

import importlib
import json
import os
import queue
import sys
import tempfile
import threading
import traceback
import warnings
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path

from built import TEST_JAR
from fast_start import FAST_START, FEW_TABLES, FEW_TASKS, INTERPRETED
from process import Halts, Process, calls

TIMEOUT_S = 600

# What is only there to be fast can be left away: every test must pass without it.
FAST_PATHS = (
    {"spark.lakestep.reuseSnapshots": "false"}
    if os.environ.get("LAKESTEP_TEST_FAST_PATHS") == "off"
    else {}
)

SETTINGS = {
    **FEW_TABLES,
    **FEW_TASKS,
    **FAST_PATHS,
    **INTERPRETED,
    "spark.master": "local[2]",
    "spark.driver.memory": "1g",
    "spark.driver.extraJavaOptions": FAST_START,
    "spark.sql.adaptive.enabled": "false",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.databricks.delta.snapshotPartitions": "2",
}

# One publish thread: the k-th call of a step is the k-th table.
HALTING = {
    "spark.jars": str(TEST_JAR),
    "spark.lakestep.commit.observer": "io.lakestep.testing.HaltingObserver",
    "spark.lakestep.commit.publishThreads": "1",
}


class DriverError(Exception):
    """What the driver's session raised: `condition`, `sql_state`, `parameters`."""

    def __init__(self, kind, message, condition, sql_state, parameters):
        super().__init__(f"{kind}: {message}")
        self.condition = condition
        self.main_condition = condition and condition.split(".")[0]
        self.sql_state = sql_state
        self.parameters = parameters


class Session:
    """A Spark session of a driver, for one client."""

    def __init__(self, driver, name, settings):
        self.driver = driver
        self._name = name
        self._settings = settings

    def start(self, function, **arguments):
        """Call a function of the driver; return the future of its answer."""
        return self.driver.send(self._name, self._settings, function, arguments)

    def call(self, function, **arguments):
        return self.start(function, **arguments).result(TIMEOUT_S)

    def start_sql(self, *statements):
        return self.start("driver:sql", statements=statements)

    def sql(self, *statements):
        """Run statements; return the rows of the last as tuples."""
        return [tuple(row) for row in self.start_sql(*statements).result(TIMEOUT_S)]


class Driver(Process):
    """A driver process with Lakestep; that of another checkout when one is named."""

    def __init__(self, folder, settings=None, checkout=None):
        self._folder = folder
        program = Path(checkout, "tests", "driver.py") if checkout else __file__
        path = {"PYTHONPATH": str(Path(checkout, "python", "src"))} if checkout else {}
        super().__init__(
            program,
            json.dumps([str(folder), settings or {}]),
            log=Path(tempfile.mkstemp(prefix="driver-", suffix=".log", dir=folder)[1]),
            error=lambda described: DriverError(*described),
            environment={**os.environ, **path, "SPARK_LOCAL_IP": "127.0.0.1"},
        )
        self._names = count()

    def session(self, root=None, **settings):
        """Return a new session; `root` is the folder of its timeline."""
        if root is not None:
            settings["spark.lakestep.root"] = f"file:{root}"
        return Session(self, f"s{next(self._names)}", settings)

    def halts(self, *steps):
        """Order the driver to halt at these steps, ``step:k``; in place of all earlier orders."""
        return Halts(self._order, self._folder, steps)

    def _order(self, at, folder):
        self.send("orders", {}, "driver:order", {"at": at, "folder": folder}).result(TIMEOUT_S)


class Pool:
    """Drivers that are started once and used again, until a test kills them."""

    def __init__(self, folder):
        self._folder = folder
        self._idle = []
        self._all = []

    def take(self, number, spare=False):
        """Return drivers, which stay the caller's until `give_back`.

        With `spare` one more is started at once, for a caller who is going to kill one.
        """
        while len(self._idle) < number + spare:
            self._idle.append(self.start())
        taken, self._idle = self._idle[:number], self._idle[number:]
        return taken

    def give_back(self, drivers):
        self._idle += [driver for driver in drivers if driver.is_alive]

    def start(self, settings=None):
        """Start a driver that no other test gets."""
        driver = Driver(self._folder, {**HALTING, **(settings or {})})
        self._all.append(driver)
        return driver

    def close(self):
        for driver in self._all:
            driver.kill()


# The other end of the pipe.


def sql(spark, statements):
    rows = []
    for statement in statements:
        rows = spark.sql(statement).collect()
    return [list(row) for row in rows]


def warned(spark, statements):
    """Return what Python is warned of by a transaction."""
    import lakestep

    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        with lakestep.transaction(spark):
            sql(spark, statements)
    return [str(one.message) for one in told if issubclass(one.category, UserWarning)]


def analyse(spark, statement):
    """Resolve the tables of a query, and run it later: `run_analysed`."""
    analysed[spark] = spark.sql(statement)


def run_analysed(spark):
    return [list(row) for row in analysed.pop(spark).collect()]


def start_beside(spark, statement):
    """Run a query on another thread of the same session: `end_beside`."""
    beside[spark] = threads.submit(sql, spark, [statement])


def end_beside(spark):
    return beside.pop(spark).result()


analysed = {}
beside = {}
threads = ThreadPoolExecutor()


def order(spark, at, folder):
    system = spark._jvm.java.lang.System
    system.setProperty("lakestep.halt.at", at)
    system.setProperty("lakestep.halt.folder", folder)


def _described(error):
    def told(name):
        return getattr(error, name)() if hasattr(error, name) else None

    return [
        type(error).__name__,
        str(error),
        told("getCondition"),
        told("getSqlState"),
        told("getMessageParameters"),
    ]


def _first_session(folder, settings):
    from pyspark.sql import SparkSession

    import lakestep
    from lakestep import _session

    warehouse = tempfile.mkdtemp(prefix="warehouse-", dir=folder)
    builder = SparkSession.builder.config(map={**SETTINGS, **settings})
    builder.config("spark.sql.warehouse.dir", f"file:{warehouse}")
    session = lakestep.configure(builder).getOrCreate()
    _session.meet(session)
    return session


def _serve(folder, settings):
    # Calls name functions of test files, too.
    sys.path += [str(path) for path in Path(__file__).parents[1].iterdir() if path.is_dir()]
    incoming = calls()
    first = _first_session(folder, settings)

    def work(session_calls, session_settings):
        spark = first.newSession()
        for key, value in session_settings.items():
            spark.conf.set(key, value)
        while True:
            function, arguments, answer = session_calls.get()
            try:
                module, name = function.split(":")
                answer(getattr(importlib.import_module(module), name)(spark, **arguments), None)
            except Exception as error:
                traceback.print_exc()
                answer(None, _described(error))

    sessions = {}
    for (session, session_settings, function, arguments), answer in incoming:
        if session not in sessions:
            sessions[session] = queue.Queue()
            target = (sessions[session], session_settings)
            threading.Thread(target=work, args=target, daemon=True).start()
        sessions[session].put((function, arguments, answer))


if __name__ == "__main__":
    _serve(*json.loads(sys.argv[1]))
    os._exit(0)


def at_once(held, step, one, begins, two, other):
    """Hold what a session of `held` has begun at a step, until another has tried its own.

    Returns the conditions with which the two failed; None for what did not fail.
    """
    with held.halts(step) as halts:
        running = one.start_sql(*begins)
        halts.during(running)
        halts.reached()
        outcome = _failure(lambda: two.sql(*other))
        halts.go()
        return [_failure(lambda: running.result(TIMEOUT_S)), outcome]


def _failure(work):
    try:
        work()
        return None
    except Exception as failure:
        return getattr(failure, "condition", None) or str(failure)
