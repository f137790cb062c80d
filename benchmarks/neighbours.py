"""What others notice: the next plain reader and writer of a table that a transaction has changed.

Two drivers commit the same INSERT to a table of their own, one by Lakestep, one by plain Delta. A
third one, without Lakestep, then reads each table and writes it. Whoever leaves checksums or
checkpoints out makes that one slower.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import statistics
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pages
import pairs
from driver import Driver
from rich.console import Console
from rich.progress import track

REPOSITORY = Path(__file__).resolve().parent.parent
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
    return (
        f"Run of {found['date']}, load {found['load']:.1f} at its begin, {found['rounds']} rounds."
        f"\n\n{pages.table(heads, rows)}"
    )


def main() -> None:
    """Run the benchmark; with --quick fewer rounds, and nothing is written."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--data", type=Path, default=REPOSITORY / ".data")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    work = options.data.absolute() / "neighbours"
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    rounds = 5 if options.quick else 25
    found = {
        "date": datetime.now(timezone.utc).date().isoformat(),
        "load": os.getloadavg()[0],
        "rounds": rounds,
        **measure(work, rounds, options.seed),
    }
    Console(highlight=False).print(page(found), soft_wrap=True)
    if not options.quick:
        pages.keep("neighbours", {"neighbours": found}, page(found))


if __name__ == "__main__":
    main()
