"""Large matrices run in quarters: each `make test` takes one, and four landings see all of it.

The file `slice` counts the landings; its number modulo 4 is the quarter. `LAKESTEP_TEST_SLICE=2/4`
repeats one, `LAKESTEP_TEST_SLICE=all` takes them all.
"""

import os
from pathlib import Path

QUARTERS = 4
_COUNTER = Path(__file__).with_name("slice")


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


def header():
    """A line for the report."""
    quarter = chosen()
    return "slice of the matrices: " + ("all" if quarter is None else f"{quarter + 1}/{QUARTERS}")
