"""Where the build puts what tests need: a folder for each line of Spark."""

from pathlib import Path

from lakestep import _build

TOP = Path(__file__).resolve().parents[2]

# Of the Spark that is tested; docs/spark-versions.md says what differs.
LINE = _build.line()
BUILT = TOP / "target" / LINE

# What tests and benchmarks put into a driver: observers, a counting file system.
TEST_JAR = BUILT / "lakestep-tests.jar"
