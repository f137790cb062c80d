"""A small Spark session with Lakestep, for tests in its process."""

from pyspark.sql import SparkSession

import lakestep
from driver import FAST_PATHS
from fast_start import FAST_START, FEW_TABLES, FEW_TASKS, INTERPRETED

SMALL = {
    **FEW_TABLES,
    **FEW_TASKS,
    **FAST_PATHS,
    **INTERPRETED,
    "spark.master": "local[2]",
    "spark.driver.memory": "2g",
    "spark.driver.extraJavaOptions": FAST_START,
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.databricks.delta.snapshotPartitions": "2",
    # Most tests look at the conflict itself; those of test_redo.py have the default.
    "spark.lakestep.commit.redoStatements": "false",
}


def small_session(folder, settings=None):
    """A configured session with its warehouse and timeline in `folder`."""
    builder = SparkSession.builder.config(map={**SMALL, **(settings or {})})
    builder.config("spark.sql.warehouse.dir", f"file:{folder}/warehouse")
    return lakestep.configure(builder, root=folder / "timeline").getOrCreate()
