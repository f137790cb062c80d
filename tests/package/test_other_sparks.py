"""Whoever drops the JAR on a Spark that it is not for gets a condition, and no session."""

import os
import subprocess
from pathlib import Path

import pytest

import lakestep
from built import LINE, TOP
from lakestep import _build

OTHERS = TOP / "target" / "others"

START = """
import sys
from pyspark.sql import SparkSession
jar, *settings = sys.argv[1:]
builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
builder.config("spark.jars", jar)
for setting in settings:
    builder.config(*setting.split("=", 1))
try:
    spark = builder.getOrCreate()
    print("STARTED", spark.range(1).count())
except Exception as failure:
    print("FAILED", str(failure))
"""

EXTENSION = "spark.sql.extensions=io.lakestep.LakestepExtensions"
CATALOG = "spark.sql.catalog.spark_catalog=io.lakestep.catalog.TransactionalCatalog"


def spark_home(folder, python):
    """A Spark of Scala 2.13 in place of the one that PySpark brings."""
    [package] = python.parents[1].glob("lib/python*/site-packages/pyspark")
    for name in ("bin", "python"):
        (folder / name).symlink_to(package / name)
    (folder / "jars").symlink_to(OTHERS / "old-spark-jars")
    (folder / "RELEASE").touch()
    return folder


@pytest.mark.long
@pytest.mark.parametrize("settings", [[EXTENSION], [EXTENSION, CATALOG]], ids=["one", "both"])
@pytest.mark.parametrize(
    ("version", "scala"), [("3.5.9", "2.12"), ("3.5.9", "2.13"), ("4.3.0", "2.13")]
)
def test_spark_of_no_line_starts_no_session(tmp_path, version, scala, settings):
    python = OTHERS / f"spark-{version}" / "bin" / "python"
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("SPARK_", "PYSPARK_"))}
    environment["PYSPARK_PYTHON"] = str(python)
    if version.startswith("3.5") and scala == "2.13":
        environment["SPARK_HOME"] = str(spark_home(tmp_path, python))
    for jar in _build.jars().values():
        done = subprocess.run(
            [python, "-c", START, jar, *settings],
            env=environment,
            cwd=tmp_path,
            capture_output=True,
            text=True,
        )
        assert "STARTED" not in done.stdout, done.stdout
        assert "[LAKESTEP_UNSUPPORTED_RUNTIME] This JAR of Lakestep " in done.stdout, (
            done.stdout + done.stderr
        )
        assert "found Spark " + version[:3] in done.stdout
        assert "Spark 4.0, 4.1, 4.2" in done.stdout


@pytest.mark.long
@pytest.mark.parametrize("line", [line for line in _build.lines() if line != LINE])
def test_delta_for_another_line_starts_no_session(python, line):
    jars = [*(TOP / "target" / line / "delta-jars").glob("*.jar")]
    assert jars
    code = f"""
    from pyspark.sql import SparkSession
    builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
    builder.config("spark.jars", {",".join(map(str, jars))!r})
    try:
        answer(lakestep.configure(builder).getOrCreate().version)
    except lakestep.ConfigurationError as error:
        answer(error.getCondition())
    """
    assert python(code) == "LAKESTEP_UNSUPPORTED_RUNTIME"


def test_the_check_is_of_an_old_java(tmp_path):
    names = ("LakestepExtensions", "RuntimeContract", "UnsupportedRuntimeException")
    path = f"{Path(lakestep.jar_path())}"
    for name in names:
        told = subprocess.run(
            ["javap", "-v", "-cp", path, f"io.lakestep.{name}"], capture_output=True, text=True
        )
        assert "major version: 52" in told.stdout, told.stdout + told.stderr
