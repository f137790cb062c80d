"""What makes the JVM of a short test cheap: options, settings, and an archive of loaded classes.

Run as a program it writes the archive: ``fast_start.py``. Without one a JVM only starts slower.
"""

import os
import sys
import tempfile
from pathlib import Path

# One for each environment: it is of one PySpark's JARs alone.
ARCHIVE = Path(sys.prefix) / "share" / "lakestep" / "spark-classes.jsa"

# A short test is over before a better compiled program would pay.
OPTIONS = "-XX:+UseSerialGC"
if "LAKESTEP_TEST_LONG" not in os.environ:
    # Compiled that way a JVM has a fifth of the usual room for code, and soon forgets it again.
    OPTIONS += " -XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m"

# For Spark alone: of another JDK or with other JARs the archive is left alone, with a warning.
FAST_START = OPTIONS + (f" -XX:SharedArchiveFile={ARCHIVE}" if ARCHIVE.exists() else "")

# Delta keeps the last state of 10,000 tables, more than a small JVM has room for.
FEW_TABLES = {"spark.databricks.delta.delta.log.cacheSize": "30"}

# By default VACUUM looks for files in 10,000 tasks.
FEW_TASKS = {"spark.sql.sources.parallelPartitionDiscovery.parallelism": "2"}

# Half of the time of a small statement goes into the texts of programs that run once.
INTERPRETED = (
    {}
    if "LAKESTEP_TEST_COMPILED" in os.environ
    else {
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
        "spark.sql.codegen.wholeStage": "false",
    }
)


def write_archive(folder):
    """Write the classes of a JVM that has run statements; the JVM does so when it ends."""
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    import lakestep

    ARCHIVE.unlink(missing_ok=True)
    dump = f"-XX:ArchiveClassesAtExit={ARCHIVE} -Xlog:cds=off -Xlog:cds+dynamic=off"
    builder = SparkSession.builder.master("local[2]").config(
        map={
            **INTERPRETED,
            "spark.driver.memory": "1g",
            "spark.sql.shuffle.partitions": "2",
            "spark.databricks.delta.snapshotPartitions": "2",
            "spark.driver.extraJavaOptions": f"{OPTIONS} {dump}",
            "spark.sql.warehouse.dir": f"file:{folder}/warehouse",
            "spark.ui.enabled": "false",
        }
    )
    spark = lakestep.configure(builder, root=Path(folder, "timeline")).getOrCreate()
    for statement in (
        "CREATE TABLE t (id BIGINT, text STRING) USING delta",
        "BEGIN",
        "INSERT INTO t VALUES (1, 'a'), (2, 'b')",
        "UPDATE t SET text = 'c' WHERE id = 1",
        "MERGE INTO t USING (SELECT 2L AS id) s ON t.id = s.id WHEN MATCHED THEN DELETE",
        "COMMIT",
        "SELECT count(*), max(text) FROM t",
    ):
        spark.sql(statement).collect()
    assert SparkContext._gateway is not None
    jvm = SparkContext._gateway.proc
    spark.stop()
    jvm.stdin.close()
    jvm.wait()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        write_archive(folder)
