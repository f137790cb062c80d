"""Where the build puts what tests need: a folder for each line of Spark."""

from pathlib import Path

from lakestep import _build

TOP = Path(__file__).resolve().parents[2]
BUILT = TOP / "target" / _build.line()

# What tests and benchmarks put into a driver: observers, a counting file system.
TEST_JAR = BUILT / "lakestep-tests.jar"
