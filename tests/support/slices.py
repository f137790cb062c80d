"""Large matrices run in slices: each `make test` takes one, and twelve landings see all of it.

The tests of a file that are marked ``sliced`` are a matrix, of which a twelfth runs; of those that
are marked ``sliced(6)`` a sixth. The file `slice` counts landings; its number modulo 12 is the
slice. ``LAKESTEP_TEST_SLICE=2/12`` takes the second one, ``all`` takes all.
"""

import os
from collections import defaultdict
from pathlib import Path

SLICES = 12
_COUNTER = Path(__file__).resolve().parents[1] / "slice"


def chosen():
    """The number of the slice, from 0 on; None for all of them."""
    asked = os.environ.get("LAKESTEP_TEST_SLICE")
    if asked == "all":
        return None
    if asked is None:
        return int(_COUNTER.read_text()) % SLICES
    number, of = map(int, asked.split("/"))
    if of != SLICES or not 1 <= number <= SLICES:
        raise ValueError(f"LAKESTEP_TEST_SLICE is 1/{SLICES} to {SLICES}/{SLICES} or all")
    return number - 1


def part(cases, of=SLICES):
    """The cases of the chosen slice: on a diagonal, as no parameter may be in one slice alone."""
    number = chosen()
    return [
        case for i, case in enumerate(cases) if number is None or (i + i // of) % of == number % of
    ]


def split(items):
    """The items to run, and those that belong to other slices."""
    matrices = defaultdict(list)
    for item in items:
        if marker := item.get_closest_marker("sliced"):
            # Those that are for `make test-long` would take the places of others.
            is_short = item.get_closest_marker("long") is None
            matrices[item.path, is_short, (*marker.args, SLICES)[0]].append(item)
    out = set()
    for (_, is_short, of), matrix in matrices.items():
        if is_short:
            out |= set(matrix) - set(part(matrix, of))
    return [item for item in items if item not in out], list(out)


def header():
    """A line for the report."""
    number = chosen()
    return "slice of the matrices: " + ("all" if number is None else f"{number + 1}/{SLICES}")
