"""The two kinds of Spark session that are compared: stock Delta, and the same with Lakestep."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path

from pyspark.sql import SparkSession

# Small, and alike for both kinds. A heap of one size: while it grows, sorting (in pages of 64 MB)
# starts a concurrent cycle of G1 in nearly every statement, in which driver more often is chance.
_SMALL = {
    "spark.master": "local[2]",
    "spark.driver.memory": "2g",
    "spark.driver.extraJavaOptions": "-Xms2g",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.databricks.delta.snapshotPartitions": "2",
}


def _builder(settings: Mapping[str, str]) -> SparkSession.Builder:
    return SparkSession.builder.config(map={**_SMALL, **settings})


def plain(settings: Mapping[str, str]) -> SparkSession:
    """Return a session with Delta as its manual says, and without Lakestep."""
    jars = [str(jar) for jar in sorted(_delta_jars().glob("*.jar"))]
    jars += [jar for jar in settings.get("spark.jars", "").split(",") if jar]
    builder = _builder({**settings, "spark.jars": ",".join(jars)})
    builder.config("spark.sql.extensions", "io.delta.sql.DeltaSparkSessionExtension")
    builder.config(
        "spark.sql.catalog.spark_catalog", "org.apache.spark.sql.delta.catalog.DeltaCatalog"
    )
    return builder.getOrCreate()


def transactional(settings: Mapping[str, str], root: Path | str) -> SparkSession:
    """Return a session with Lakestep and its timeline in `root`."""
    import lakestep

    return lakestep.configure(_builder(settings), root=root).getOrCreate()


def _delta_jars() -> Path:
    """Return the folder that `make setup` fills; this process does not import Lakestep."""
    named = os.environ.get("LAKESTEP_DELTA_JARS")
    folder = Path(named) if named else Path(sys.prefix) / "share" / "lakestep" / "delta-jars"
    if not any(folder.glob("delta-spark_*.jar")):
        raise FileNotFoundError(f"Delta's JARs are not in {folder}: run `make setup`")
    return folder
