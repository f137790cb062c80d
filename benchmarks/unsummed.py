"""What a COMMIT of many tables costs that have no checksum, as another writer has made them.

Each round makes its tables anew by delta-rs, which writes none, and puts a row into each of them in
one transaction, and then in another one. Delta would reconstruct the state of each table for its
first checksum, in a Spark job each; COMMIT does not wait for it.
"""

from __future__ import annotations

import random
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import deltalake
import pages
import pyarrow as pa
from driver import Driver
from rich.progress import track

WARM_UP = 1
FIRST, AGAIN = "without checksums", "the next one"


def measure(work: Path, rounds: int, seed: int, tables: int) -> dict[str, Any]:
    """Return the medians of COMMIT and their intervals, in seconds."""
    rows = pa.table({"id": pa.array([1], pa.int64()), "v": ["old"]})
    seconds: dict[str, list[float]] = {FIRST: [], AGAIN: []}
    with Driver("unsummed", work, root=work / "timeline") as driver:
        for turn in track(range(WARM_UP + rounds), "rounds", transient=True):
            places = [work / f"round{turn}" / f"t{number}" for number in range(tables)]
            for place in places:
                deltalake.write_deltalake(str(place), rows)
            inserts = [f"INSERT INTO delta.`{place}` VALUES (2, 'new')" for place in places]
            for kind in (FIRST, AGAIN):
                taken = driver.call("timed", statements=["BEGIN", *inserts, "COMMIT"])[-1]
                driver.call("flush")
                if turn >= WARM_UP:
                    seconds[kind].append(taken)
    return {
        "tables": tables,
        **{
            kind: {"median_s": statistics.median(taken), "median_95_s": _interval(taken, seed)}
            for kind, taken in seconds.items()
        },
    }


def _interval(taken: Sequence[float], seed: int) -> tuple[float, float]:
    """Return the bootstrap 95 % interval of a median."""
    chance = random.Random(seed)
    draws = sorted(statistics.median(chance.choices(taken, k=len(taken))) for _ in range(10_000))
    return draws[250], draws[9749]


def page(found: dict[str, Any]) -> str:
    """Return the results as Markdown."""
    rows = []
    for kind in (FIRST, AGAIN):
        low, high = (f"{seconds:.2f}" for seconds in found[kind]["median_95_s"])
        rows.append([kind, f"{found[kind]['median_s']:.2f} s ({low} to {high})"])
    return pages.table([f"COMMIT of {found['tables']} tables", "median (95 % interval)"], rows)


if __name__ == "__main__":
    pages.answer(
        "unsummed", __doc__, measure, page, rounds=6, quick_rounds=1, numbers={"tables": 80}
    )
