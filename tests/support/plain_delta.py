"""Spark and Delta without Lakestep, in a process of their own: what a transaction must agree with.

Run as a program it answers requests; `PlainDelta` is its client.
"""

import itertools
import os
import sys
import traceback
from collections import Counter
from pathlib import Path

from pyspark.errors import StreamingQueryException

import statement_kinds
import table_kinds
import table_state
from built import TEST_JAR
from fast_start import FAST_START, FEW_TABLES, FEW_TASKS, INTERPRETED
from process import Process, calls
from statement_kinds import Target
from transactions import condition_of

# The local disk by another name.
COUNTED = {
    "spark.hadoop.fs.hdfs.impl": "io.lakestep.testing.CountingFileSystem",
    "spark.hadoop.fs.AbstractFileSystem.hdfs.impl": "io.lakestep.testing.CountingFileContext",
}


class PlainDelta(Process):
    """The client. Requests are answered one after another; `start` does not wait for its own."""

    def __init__(self, folder, delta_jars):
        super().__init__(
            __file__,
            str(folder),
            delta_jars,
            log=folder / "plain.log",
            # It is on Spark Classic, whatever the tests are on.
            environment={
                k: v for k, v in os.environ.items() if not k.startswith(("PYSPARK_", "SPARK_"))
            },
        )

    def start(self, request, **arguments):
        return self.send(request, arguments)

    def ask(self, request, **arguments):
        return self.start(request, **arguments).result()


class _Requests:
    def __init__(self, spark):
        self.spark = spark
        self.numbers = itertools.count()

    def create(self, kind, path):
        table_kinds.create(self.spark, kind, path)

    def sql(self, text):
        return table_state.shown(self.spark.sql(text))

    def counted(self, statements):
        """The requests to `hdfs://counted` of each statement, of a process that knows no table."""
        files = self.spark._jvm.io.lakestep.testing.CountingFileSystem
        self.spark._jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()
        counts = [Counter(dict(files.requests()))]
        for statement in statements:
            self.spark.sql(statement).collect()
            counts.append(Counter(dict(files.requests())))
        return [after - before for before, after in itertools.pairwise(counts)]

    def state(self, path, since):
        return table_state.state(self.spark, path, since)

    def stream(self, path, checkpoint, **options):
        """What a stream reads that goes on where it was, and what has ended it, if that failed."""
        writer, rows = self._stream(path, checkpoint, options)
        query = writer.trigger(availableNow=True).start()
        return _ended(query.awaitTermination, rows)

    def start_stream(self, path, checkpoint, **options):
        """What a stream reads first, which then goes on."""
        writer, rows = self._stream(path, checkpoint, options)
        query = writer.start()
        query.processAllAvailable()
        first = sorted(rows)
        rows.clear()
        self.running = query, rows
        return first

    def end_stream(self):
        """What it has read since, and what has ended it, if that failed."""
        query, rows = self.running
        try:
            return _ended(query.processAllAvailable, rows)
        finally:
            query.stop()

    def _stream(self, path, checkpoint, options):
        rows = []
        writer = (
            self.spark.readStream.format("delta")
            .options(**options)
            .load(path)
            .drop("_commit_timestamp")
            .writeStream.foreachBatch(lambda batch, _: rows.extend(table_state.shown(batch)))
            .option("checkpointLocation", checkpoint)
        )
        return writer, rows

    def after(self, statements, path, since):
        """View and state of a table after statements, or the condition of the one that failed."""
        name = f"t{next(self.numbers)}"
        self.spark.sql(f"CREATE TABLE {name} USING delta LOCATION '{path}'")
        for statement in statements:
            try:
                statement_kinds.run(self.spark, statement, Target(name, path))
            except Exception as failure:
                if condition_of(failure) is None:
                    raise
                return {"condition": condition_of(failure), "message": str(failure)}
        return {
            "condition": None,
            "view": table_state.view(self.spark, name),
            "state": table_state.state(self.spark, path, since),
        }


def _ended(wait, rows):
    failure = None
    try:
        wait()
    except StreamingQueryException as error:
        failure = str(error)
    return {"rows": sorted(rows), "failure": failure}


def main(folder, delta_jars):
    from pyspark.sql import SparkSession

    incoming = calls()
    spark = (
        SparkSession.builder.master("local[2]")
        .config(
            "spark.jars", ",".join(map(str, [*sorted(Path(delta_jars).glob("*.jar")), TEST_JAR]))
        )
        .config("spark.sql.extensions", "io.delta.sql.DeltaSparkSessionExtension")
        .config(
            "spark.sql.catalog.spark_catalog", "org.apache.spark.sql.delta.catalog.DeltaCatalog"
        )
        .config("spark.sql.warehouse.dir", f"file:{folder}/plain-warehouse")
        .config("spark.driver.memory", "1g")
        .config("spark.driver.extraJavaOptions", FAST_START)
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.databricks.delta.snapshotPartitions", "2")
        .config(map={**FEW_TABLES, **FEW_TASKS, **INTERPRETED, **COUNTED})
        .getOrCreate()
    )
    requests = _Requests(spark)
    for (request, arguments), answer in incoming:
        try:
            answer(getattr(requests, request)(**arguments), None)
        except Exception:
            answer(None, traceback.format_exc())
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
