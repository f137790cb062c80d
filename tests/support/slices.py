"""Large matrices run in quarters: each `make test` takes one, and four landings see all of it.

The tests of a file that are marked ``sliced`` alike are a matrix, with the sources that they
watch: where one of them has changed since the last landing but one, the whole matrix runs.

The file `slice` counts landings; its number modulo 4 is the quarter. ``LAKESTEP_TEST_SLICE=2/4``
takes that quarter whatever has changed, ``LAKESTEP_TEST_SLICE=all`` takes all.
"""

import functools
import os
import subprocess
from collections import defaultdict
from pathlib import Path

QUARTERS = 4
_TOP = Path(__file__).resolve().parents[2]
_COUNTER = _TOP / "tests" / "slice"
_SOURCES = "scala/src/main/scala/io/lakestep/"
_ENGINE_ROOM = "scala/src/main/scala/org/apache/spark/sql/delta/lakestep/"


def chosen():
    """The number of the quarter, from 0 on; None for all of them."""
    asked = os.environ.get("LAKESTEP_TEST_SLICE")
    if asked == "all":
        return None
    if asked is None:
        return int(_COUNTER.read_text()) % QUARTERS
    number, of = map(int, asked.split("/"))
    if of != QUARTERS or not 1 <= number <= QUARTERS:
        raise ValueError(f"LAKESTEP_TEST_SLICE is 1/4, 2/4, 3/4, 4/4 or all, not {asked}")
    return number - 1


def part(cases):
    """The cases of the chosen quarter."""
    quarter = chosen()
    return [case for i, case in enumerate(cases) if quarter is None or i % QUARTERS == quarter]


def split(items):
    """The items to run, and those that belong to other quarters."""
    matrices = defaultdict(list)
    for item in items:
        if marker := item.get_closest_marker("sliced"):
            matrices[item.path, marker.args].append(item)
    out = set()
    for (_, sources), matrix in matrices.items():
        watched = tuple(
            _ENGINE_ROOM if source == "engine room" else _SOURCES + source for source in sources
        )
        if not any(path.startswith(watched) for path in _changed()):
            out |= set(matrix) - set(part(matrix))
    return [item for item in items if item not in out], list(out)


@functools.cache
def _changed():
    """Files that have changed since the counter was moved the last time but one."""
    if "LAKESTEP_TEST_SLICE" in os.environ:
        return []

    def git(*command):
        done = subprocess.run(["git", *command], cwd=_TOP, capture_output=True, text=True)
        return done.stdout.split() if done.returncode == 0 else []

    moved = git("log", "-2", "--format=%H", "--", str(_COUNTER))
    return git("diff", "--name-only", moved[-1]) if len(moved) == 2 else []


def header():
    """A line for the report."""
    quarter = chosen()
    return "slice of the matrices: " + ("all" if quarter is None else f"{quarter + 1}/{QUARTERS}")
