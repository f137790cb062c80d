"""A Spark driver that takes its calls from a pipe; see driver.py."""

from __future__ import annotations

import json
import re
import sys
import time
import traceback
from typing import Any

import driver  # noqa: F401  It knows where `process` is.
import sessions
import tpch
from process import calls
from pyspark.sql import Row, SparkSession

CHECK = {
    "state": (
        "SELECT * FROM (SELECT count(*) AS orders, sum(o_orderkey) AS order_keys FROM orders),"
        " (SELECT count(*) AS lineitems, sum(l_orderkey) AS lineitem_keys FROM lineitem)"
    ),
    "orders_alone": (
        "SELECT count(*) FROM orders LEFT ANTI JOIN lineitem ON l_orderkey = o_orderkey"
    ),
    "lineitems_alone": (
        "SELECT count(*) FROM lineitem LEFT ANTI JOIN orders ON o_orderkey = l_orderkey"
    ),
}


class Client:
    """What a driver can be asked to do. Every value goes back as JSON."""

    def __init__(self, orders: dict[str, Any]) -> None:
        root, settings = orders["root"], orders["settings"]
        self._is_plain = root is None
        self._spark: SparkSession = (
            sessions.plain(settings) if root is None else sessions.transactional(settings, root)
        )
        self._sessions: dict[str, SparkSession] = {}
        self._before: dict[str, str] = {}
        self._spark.sparkContext.setLogLevel("WARN")

    def ready(self) -> int:
        """Return the process id of the JVM."""
        return int(self._jvm.java.lang.ProcessHandle.current().pid())

    def load(self, files: str, tables: str, below: int) -> None:
        """Make both tables from the generated files, without the orders from key `below` on."""
        for table, key in tpch.TABLES.items():
            rows = self._spark.read.parquet(f"{files}/{table}.parquet").where(f"{key} < {below}")
            ranges = rows.repartitionByRange(8, key).sortWithinPartitions(key)
            ranges.write.format("delta").save(f"{tables}/{table}")

    def attach(self, tables: str) -> None:
        """Give the existing tables their names in this session's catalog."""
        for table in tpch.TABLES:
            self.sql(f"CREATE TABLE {table} USING delta LOCATION '{tables}/{table}'")

    def configure(self, settings: dict[str, str]) -> None:
        """Give the session these settings, in place of those that the last call gave it."""
        conf = self._spark.conf
        for name, value in self._before.items():
            if value:
                conf.set(name, value)
            else:
                conf.unset(name)
        self._before = {name: conf.get(name, "") or "" for name in settings}
        for name, value in settings.items():
            conf.set(name, value)

    def sql(self, statement: str) -> list[list[str]]:
        """Run one statement."""
        return tpch.texts(self._rows(statement))

    def refresh(self, name: str, statements: list[str]) -> dict[str, float]:
        """Run a refresh function as one transaction over both tables."""
        import lakestep

        began = time.monotonic()
        with lakestep.transaction(self._spark, name) as txn:
            for statement in statements:
                self._rows(statement)
            staged = time.monotonic()
            txn.commit()
        ended = time.monotonic()
        return {"seconds": ended - began, "commit_s": ended - staged}

    def check(self) -> dict[str, float]:
        """Look at both tables in one transaction: their state, and what lacks its other half."""
        began = time.monotonic()
        self._rows("BEGIN")
        begun = time.monotonic()
        found = self._rows(CHECK["state"])[0].asDict()
        for name in ("orders_alone", "lineitems_alone"):
            found[name] = self._rows(CHECK[name])[0][0]
        self._rows("COMMIT")
        ended = time.monotonic()
        return {**found, "begin_s": begun - began, "seconds": ended - began}

    def halt_at(self, steps: str, folder: str) -> None:
        """Order the commit observer to halt this driver at steps of its next commits."""
        self._jvm.java.lang.System.setProperty("lakestep.halt.folder", folder)
        self._jvm.java.lang.System.setProperty("lakestep.halt.at", steps)

    def versions(self) -> dict[str, str]:
        """Return what this driver runs on."""
        jars = self._spark.conf.get("spark.jars") or ""
        delta = re.search(r"/delta-spark_[^/]*-([^-/]+)\.jar", jars)
        return {
            "lakestep": str(self._spark.conf.get("spark.lakestep.version")),
            "spark": self._spark.version,
            "delta": delta[1] if delta else "unknown",
            "java": str(self._jvm.java.lang.System.getProperty("java.version")),
        }

    def timed(self, statements: list[str], root: str | None = None) -> list[float]:
        """Run statements, with the timeline in `root`, and return the seconds that each took."""
        spark = self._spark if root is None else self._session(root)
        seconds = []
        for statement in statements:
            began = time.monotonic()
            spark.sql(statement).collect()
            seconds.append(time.monotonic() - began)
        return seconds

    def flush(self) -> None:
        """Wait for what follows the end of each transaction."""
        longest_ms = 60_000
        if not self._is_plain and not self._jvm.io.lakestep.transaction.Databases.flush(longest_ms):
            raise TimeoutError

    def _session(self, root: str) -> SparkSession:
        if root not in self._sessions:
            self._sessions[root] = self._spark.newSession()
            self._sessions[root].conf.set("spark.lakestep.root", root)
        return self._sessions[root]

    def analysed(self, queries: list[str]) -> list[float]:
        """Resolve queries without running them, and return the seconds that each took."""
        seconds = []
        for query in queries:
            began = time.monotonic()
            self._spark.sql(query)
            seconds.append(time.monotonic() - began)
        return seconds

    def redone(self, statements: list[str], other: str) -> float:
        """Type a transaction, let another session come first, and return the seconds of COMMIT."""
        self._spark.sql("BEGIN")
        for statement in statements:
            self._spark.sql(statement)
        self._spark.newSession().sql(other)
        began = time.monotonic()
        self._spark.sql("COMMIT")
        return time.monotonic() - began

    def counted(self, statements: list[str]) -> list[dict[str, int]]:
        """Run statements; return the requests to the store of each, with what follows it."""
        counts = []
        for statement in statements:
            before = self._requests()
            self._rows(statement)
            self.flush()
            after = self._requests()
            counts.append(
                {
                    request: count - before.get(request, 0)
                    for request, count in sorted(after.items())
                    if count > before.get(request, 0)
                }
            )
        return counts

    def hdfs_calls(self) -> int:
        """Return how many operations of HDFS this process has asked for."""
        every = self._jvm.org.apache.hadoop.fs.FileSystem.getGlobalStorageStatistics()
        counts = every.get("DFSOpsCountStatistics").getLongStatistics()
        total = 0
        while counts.hasNext():
            total += counts.next().getValue()
        return total

    def held(self) -> list[int]:
        """Return what the JVM holds: file systems, Delta logs, threads, and bytes of heap."""
        return list(self._jvm.io.lakestep.testing.Held.now(self._spark._jsparkSession))

    def _requests(self) -> dict[str, int]:
        return dict(self._jvm.io.lakestep.testing.CountingFileSystem.requests())

    @property
    def _jvm(self) -> Any:  # noqa: ANN401
        return self._spark._jvm

    def _rows(self, statement: str) -> list[Row]:
        return self._spark.sql(statement).collect()


def main() -> None:
    """Start the session, then answer calls until there are no more."""
    incoming = calls()
    client: Client | None = None
    failed: str | None = None
    try:
        client = Client(json.loads(sys.argv[1]))
    except Exception as failure:
        failed = _explained(failure)
    for (method, arguments), answer in incoming:
        value, error = None, failed
        if client is not None:
            try:
                value = getattr(client, method)(**arguments)
            except Exception as failure:
                error = _explained(failure)
        answer(value, error)


def _explained(failure: Exception) -> str:
    traceback.print_exception(failure)
    return (str(failure) or repr(failure)).splitlines()[0]


if __name__ == "__main__":
    main()
