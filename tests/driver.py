"""Spark drivers in processes of their own, which take calls over a pipe and can be killed.

`Driver` is the test's end of the pipe; run as a program, this file is the other end. A call names a
function as ``module:name`` and gets a session as its first argument; calls of one session run one
after another, those of different sessions at once. Every session has a timeline root of its own
choosing, so that one driver serves many tests.
"""

import contextlib
import importlib
import json
import os
import queue
import signal
import subprocess
import sys
import tempfile
import threading
import traceback
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import count
from pathlib import Path

from fast_start import FAST_START, FEW_TABLES, INTERPRETED

TIMEOUT_S = 600
TEST_JAR = Path(__file__).resolve().parents[1] / "target" / "lakestep-tests.jar"

# What is only there to be fast can be left away: every test must pass without it.
FAST_PATHS = (
    {"spark.lakestep.reuseSnapshots": "false"}
    if os.environ.get("LAKESTEP_TEST_FAST_PATHS") == "off"
    else {}
)

SETTINGS = {
    **FEW_TABLES,
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


class DriverDied(Exception):
    """The process ended before it answered."""


class Session:
    """A Spark session of a driver, for one client."""

    def __init__(self, driver, name, settings):
        self.driver = driver
        self._name = name
        self._settings = settings

    def start(self, function, **arguments):
        """Call a function of the driver; return the future of its answer."""
        return self.driver.start(self._name, self._settings, function, arguments)

    def call(self, function, **arguments):
        return self.start(function, **arguments).result(TIMEOUT_S)

    def start_sql(self, *statements):
        return self.start("driver:sql", statements=statements)

    def sql(self, *statements):
        """Run statements; return the rows of the last as tuples."""
        return [tuple(row) for row in self.start_sql(*statements).result(TIMEOUT_S)]


class Driver:
    """A driver process with Lakestep; that of another checkout when one is named."""

    def __init__(self, folder, settings=None, checkout=None):
        self.log = Path(tempfile.mkstemp(prefix="driver-", suffix=".log", dir=folder)[1])
        self._folder = folder
        program = Path(checkout, "tests", "driver.py") if checkout else __file__
        path = {"PYTHONPATH": str(Path(checkout, "python", "src"))} if checkout else {}
        with self.log.open("w") as log:
            self._process = subprocess.Popen(
                [sys.executable, program, json.dumps([str(folder), settings or {}])],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                start_new_session=True,
                text=True,
                env={**os.environ, **path, "SPARK_LOCAL_IP": "127.0.0.1"},
            )
        self._ids = count()
        self._lock = threading.Lock()
        self._pending = {}
        threading.Thread(target=self._receive, daemon=True).start()

    def session(self, root=None, **settings):
        """Return a new session; `root` is the folder of its timeline."""
        if root is not None:
            settings["spark.lakestep.root"] = f"file:{root}"
        return Session(self, f"s{next(self._ids)}", settings)

    def start(self, session, settings, function, arguments):
        future = Future()
        with self._lock:
            call = next(self._ids)
            self._pending[call] = future
            try:
                self._process.stdin.write(
                    json.dumps([call, session, settings, function, arguments]) + "\n"
                )
                self._process.stdin.flush()
            except OSError as error:
                del self._pending[call]
                future.set_exception(DriverDied(f"{error}; see {self.log}"))
        return future

    def _receive(self):
        for line in self._process.stdout:
            call, answer, error = json.loads(line)
            future = self._pending.pop(call)
            if error is None:
                future.set_result(answer)
            else:
                future.set_exception(DriverError(*error))
        with self._lock:
            pending, self._pending = self._pending, {}
        for future in pending.values():
            future.set_exception(DriverDied(f"see {self.log}"))

    def halts(self, *steps):
        """Order the driver to halt at these steps, ``step:k``; in place of all earlier orders."""
        return Halts(self, self._folder, steps)

    @property
    def is_alive(self):
        return self._process.poll() is None

    def kill(self):
        """SIGKILL to Python and JVM at once; returns when they are gone."""
        self._signal(signal.SIGKILL)
        self._process.wait()

    def freeze(self):
        """SIGSTOP to Python and JVM."""
        self._signal(signal.SIGSTOP)

    def thaw(self):
        self._signal(signal.SIGCONT)

    def _signal(self, number):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, number)


class Halts:
    """The two named pipes of a `HaltingObserver`, seen from the test. A context manager."""

    def __init__(self, driver, folder, steps):
        self._driver = driver
        self._folder = tempfile.mkdtemp(prefix="halts-", dir=folder)
        self._events = queue.Queue()
        # Open for both directions: neither end waits for the other to open.
        self._at, self._go = (self._pipe(name) for name in ("at", "go"))
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        self._order(",".join(steps), self._folder)

    def _pipe(self, name):
        path = Path(self._folder, name)
        os.mkfifo(path)
        return os.open(path, os.O_RDWR)

    def _order(self, at, folder):
        orders = {"at": at, "folder": folder}
        self._driver.start("orders", {}, "driver:order", orders).result(TIMEOUT_S)

    def _read(self):
        with os.fdopen(self._at, closefd=False) as lines:
            for line in lines:
                if line == "\n":
                    return
                self._events.put(line.strip())

    def during(self, future):
        """Also end `reached` when this call has ended; return the future."""
        future.add_done_callback(lambda _: self._events.put(None))
        return future

    def reached(self):
        """Wait for the driver to halt; return where, or None when the watched call has ended."""
        return self._events.get(timeout=TIMEOUT_S)

    def go(self):
        os.write(self._go, b"\n")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self._driver.is_alive:
            with contextlib.suppress(DriverDied):
                self._order("", "")
        os.write(self._at, b"\n")
        self._reader.join()
        os.close(self._at)
        os.close(self._go)


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
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    first = _first_session(folder, settings)
    lock = threading.Lock()

    def work(calls, session_settings):
        spark = first.newSession()
        for key, value in session_settings.items():
            spark.conf.set(key, value)
        while True:
            call, function, arguments = calls.get()
            answer, failure = None, None
            try:
                module, name = function.split(":")
                answer = getattr(importlib.import_module(module), name)(spark, **arguments)
            except Exception as error:
                traceback.print_exc()
                failure = _described(error)
            with lock:
                answers.write(json.dumps([call, answer, failure], default=str) + "\n")
                answers.flush()

    sessions = {}
    for line in sys.stdin:
        call, session, session_settings, function, arguments = json.loads(line)
        if session not in sessions:
            sessions[session] = queue.Queue()
            target = (sessions[session], session_settings)
            threading.Thread(target=work, args=target, daemon=True).start()
        sessions[session].put((call, function, arguments))


if __name__ == "__main__":
    _serve(*json.loads(sys.argv[1]))
    os._exit(0)
