"""What others take for the same: a row into each of 1, 2, 4 and 8 tables, at once or not.

DuckLake keeps its catalog in a database file of one process and has transactions; deltalake commits
each table by itself. Neither starts Spark jobs: what is compared is how each grows with the tables.
"""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import duckdb_extension_ducklake
import pages
import pyarrow as pa
from deltalake import write_deltalake
from driver import Driver
from rich.progress import track

SIZES = (1, 2, 4, 8)
UNCHECKED = 80
WARM_UP = 2
ROW = pa.table({"id": [1], "v": ["new"]})

LAKESTEP, COMMIT = "Lakestep, a transaction", "of it COMMIT"
PLAIN, DUCKLAKE, DELTALAKE = (
    "Spark + Delta, no transaction",
    "DuckLake",
    "deltalake, no transaction",
)


def spark(driver: Driver, names: list[str], *, whole: bool) -> Callable[[int], list[float]]:
    """Return what inserts into so many tables, and the seconds of each statement."""

    def run(size: int) -> list[float]:
        body = [f"INSERT INTO {name} VALUES (1, 'new')" for name in names[:size]]
        statements = ["BEGIN", *body, "COMMIT"] if whole else body
        seconds: list[float] = driver.call("timed", statements=statements)
        return seconds

    return run


def ducklake(work: Path) -> Callable[[int], list[float]]:
    """Return what inserts into so many tables of a DuckLake, one Parquet file for each."""
    extension = next(Path(duckdb_extension_ducklake.__file__).parent.rglob("*.duckdb_extension"))
    db = duckdb.connect()
    db.execute(f"LOAD '{extension}'")
    db.execute(
        f"ATTACH 'ducklake:{work}/lake.ducklake' AS lake"
        f" (DATA_PATH '{work}/lake', DATA_INLINING_ROW_LIMIT 0)"
    )
    for number in range(max(SIZES)):
        db.execute(f"CREATE TABLE lake.t{number} (id BIGINT, v VARCHAR)")

    def run(size: int) -> list[float]:
        began = time.monotonic()
        db.execute("BEGIN")
        for number in range(size):
            db.execute(f"INSERT INTO lake.t{number} VALUES (1, 'new')")
        db.execute("COMMIT")
        return [time.monotonic() - began]

    return run


def deltalake(work: Path) -> Callable[[int], list[float]]:
    """Return what appends to so many tables, one after another."""

    def run(size: int) -> list[float]:
        began = time.monotonic()
        for number in range(size):
            write_deltalake(work / f"deltalake{number}", ROW, mode="append")
        return [time.monotonic() - began]

    return run


def without_checksums(driver: Driver, work: Path, rounds: int) -> dict[str, float]:
    """Return the median seconds of two COMMITs, the first ones over tables that deltalake made."""
    taken: dict[str, list[float]] = {"first": [], "second": []}
    for turn in track(range(rounds), "COMMIT of tables without checksums", transient=True):
        paths = [work / f"unchecked{turn}" / str(number) for number in range(UNCHECKED)]
        for path in paths:
            write_deltalake(path, ROW)
        run = spark(driver, [f"delta.`{path}`" for path in paths], whole=True)
        for seconds in taken.values():
            seconds.append(run(UNCHECKED)[-1])
    return {which: statistics.median(seconds) for which, seconds in taken.items()}


def measure(work: Path, rounds: int, seed: int) -> dict[str, Any]:
    """Return the median seconds of each, by number of tables."""
    chance = random.Random(seed)

    def tables(kind: str) -> list[str]:
        for number in range(max(SIZES)):
            write_deltalake(work / f"{kind}{number}", ROW)
        return [f"delta.`{work}/{kind}{number}`" for number in range(max(SIZES))]

    taken: dict[str, dict[int, list[float]]] = {}
    with (
        Driver("lakestep", work, root=work / "timeline") as ours,
        Driver("plain", work, root=None) as plain,
    ):
        kinds = {
            LAKESTEP: spark(ours, tables("ours"), whole=True),
            PLAIN: spark(plain, tables("plain"), whole=False),
            DUCKLAKE: ducklake(work),
            DELTALAKE: deltalake(work),
        }
        turns = [size for size in SIZES for _ in range(WARM_UP + rounds)]
        chance.shuffle(turns)
        for size in track(turns, "a row into each table", transient=True):
            for kind in chance.sample(list(kinds), len(kinds)):
                seconds = kinds[kind](size)
                taken.setdefault(kind, {}).setdefault(size, []).append(sum(seconds))
                if kind == LAKESTEP:
                    taken.setdefault(COMMIT, {}).setdefault(size, []).append(seconds[-1])
        unchecked = without_checksums(ours, work, max(3, rounds // 5))
    medians = {
        kind: {str(size): statistics.median(by_size[size][WARM_UP:]) for size in SIZES}
        for kind, by_size in taken.items()
    }
    return {"seconds": medians, "unchecked": unchecked}


def page(found: dict[str, Any]) -> str:
    """Return the results as Markdown."""
    rows = [
        [kind, *(f"{1000 * found['seconds'][kind][str(size)]:.0f} ms" for size in SIZES)]
        for kind in (LAKESTEP, COMMIT, PLAIN, DUCKLAKE, DELTALAKE)
    ]
    first, second = (f"{1000 * s:.0f} ms" for s in found["unchecked"].values())
    return "\n\n".join(
        (
            pages.table(["tables", *map(str, SIZES)], rows),
            f"The first COMMIT of {UNCHECKED} tables that deltalake has made takes {first} (their"
            f" checksums come after it), the next one {second}.",
        )
    )


if __name__ == "__main__":
    pages.answer("peers", __doc__, measure, page, rounds=15, quick_rounds=3)
