"""What others notice: the next plain reader and writer of a table that a transaction has changed.

Two drivers commit the same INSERT to a table of their own, one by Lakestep, one by plain Delta. A
third one, without Lakestep, then reads each table and writes it. Whoever leaves checksums or
checkpoints out makes that one slower.
"""

from __future__ import annotations

import random
import statistics
from pathlib import Path
from typing import Any

import pages
import pairs
from driver import Driver
from rich.progress import track

WARM_UP = 4
STEPS = ("reader", "writer")


def measure(work: Path, rounds: int, seed: int) -> dict[str, Any]:
    """Return the medians of the next reader and writer, and their ratios."""
    chance = random.Random(seed)
    seconds: dict[str, list[list[float]]] = {"plain": [], "lakestep": []}
    with (
        Driver("plain", work, root=None) as plain,
        Driver("lakestep", work, root=work / "timeline") as lakestep,
        Driver("next", work, root=None) as following,
    ):
        drivers = {"plain": plain, "lakestep": lakestep}
        names = {kind: f"delta.`{work}/{kind}`" for kind in drivers}
        rows = "SELECT id, id % 1000 AS v FROM range(0, 100000, 1, 2)"
        for name in names.values():
            following.call("sql", statement=f"CREATE TABLE {name} USING delta AS {rows}")
        for turn in track(range(WARM_UP + rounds), "the next reader and writer", transient=True):
            for kind in chance.sample(list(drivers), 2):
                change = [f"INSERT INTO {names[kind]} VALUES ({turn}, 0)"]
                whole = ["BEGIN", *change, "COMMIT"] if kind == "lakestep" else change
                drivers[kind].call("timed", statements=whole)
                query = f"SELECT count(*), sum(v) FROM {names[kind]}"
                taken = following.call("timed", statements=[query, *change])
                if turn >= WARM_UP:
                    seconds[kind].append(taken)
        sums = {
            kind: following.call("sql", statement=f"SELECT count(*), sum(id), sum(v) FROM {name}")
            for kind, name in names.items()
        }
    if sums["plain"] != sums["lakestep"]:
        raise SystemExit(f"The tables differ: {sums}")
    found: dict[str, Any] = {}
    for index, step in enumerate(STEPS):
        taken = {kind: [row[index] for row in rows] for kind, rows in seconds.items()}
        medians = {f"{kind}_s": statistics.median(values) for kind, values in taken.items()}
        found[step] = medians | pairs.ratio(taken["lakestep"], taken["plain"], seed)
    return found


def page(found: dict[str, Any]) -> str:
    """Return the results as Markdown."""
    rows = [
        [
            f"the next {step}",
            f"{1000 * found[step]['plain_s']:.0f} ms",
            f"{1000 * found[step]['lakestep_s']:.0f} ms",
            pairs.told(found[step]),
        ]
        for step in STEPS
    ]
    heads = ["without Lakestep", "after plain Delta", "after a transaction", "ratio"]
    return pages.table(heads, rows)


if __name__ == "__main__":
    pages.answer("neighbours", __doc__, measure, page, rounds=25, quick_rounds=5)
