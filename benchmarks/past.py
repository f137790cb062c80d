"""What a query at an earlier version costs: of the database, and of each table by plain Delta.

A transaction after another changes two tables. Two drivers then read the same two tables as they
were, one by `VERSION AS OF 'db:n'`, one, without Lakestep, by the numbers of the tables' versions.
Each asks for another version in each round, so that nobody has read it before. On a local disk, and
on a server of S3 in this process, moto, that answers no request in less than the latency.
"""

from __future__ import annotations

import random
import statistics
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pages
import pairs
from driver import Driver
from rich.progress import track
from s3 import BUCKET, S3

WARM_UP = 5
ALLOW = {"spark.lakestep.foreignWriters": "allow"}
ROWS = "SELECT id, id % 1000 AS v FROM range(0, 100000, 1, 2)"
QUERY = (
    "SELECT count(*), sum(a.v + b.v) FROM {one} VERSION AS OF {version} a"
    " JOIN {two} VERSION AS OF {version} b USING (id)"
)


def measure(work: Path, rounds: int, seed: int, latency_ms: int) -> dict[str, Any]:
    """Return medians and ratios, on a local disk and on S3."""
    with S3(latency_ms=latency_ms) as server:
        on_s3 = _measured(work, f"s3a://{BUCKET}", server.driver_settings | ALLOW, rounds, seed)
    return {
        "local disk": _measured(work, str(work), {}, rounds, seed),
        f"S3, {latency_ms} ms a request": on_s3,
    }


def _measured(
    work: Path, place: str, settings: dict[str, str], rounds: int, seed: int
) -> dict[str, Any]:
    chance = random.Random(seed)
    tables = {name: f"delta.`{place}/{name}`" for name in ("one", "two")}
    with ExitStack() as stack:
        plain, writer, lakestep = (
            stack.enter_context(Driver(name, work, root=root, settings=settings))
            for name, root in (
                ("plain", None),
                ("writer", f"{place}/timeline"),
                ("lakestep", f"{place}/timeline"),
            )
        )
        made = [f"CREATE TABLE {name} USING delta AS {ROWS}" for name in tables.values()]
        plain.call("timed", statements=made)
        total = WARM_UP + rounds
        # Entry n of the timeline is version n of both tables.
        for number in track(range(1, total + 1), "transactions", transient=True):
            inserts = [f"INSERT INTO {t} VALUES ({-number}, 0)" for t in tables.values()]
            writer.call("timed", statements=["BEGIN", *inserts, "COMMIT"])
        versions = chance.sample(range(1, total + 1), total)
        seconds: dict[str, list[float]] = {"plain": [], "lakestep": []}
        for turn, number in enumerate(track(versions, "queries", transient=True)):
            queries = {
                "plain": (plain, QUERY.format(version=number, **tables)),
                "lakestep": (lakestep, QUERY.format(version=f"'db:{number}'", **tables)),
            }
            for kind in chance.sample(list(queries), 2):
                driver, query = queries[kind]
                [taken] = driver.call("timed", statements=[query])
                if turn >= WARM_UP:
                    seconds[kind].append(taken)
            if turn == 0:
                found = [d.call("sql", statement=q) for d, q in queries.values()]
                if found[0] != found[1]:
                    raise SystemExit(f"The rows differ: {found}")
    medians = {f"{kind}_s": statistics.median(taken) for kind, taken in seconds.items()}
    return medians | pairs.ratio(seconds["lakestep"], seconds["plain"], seed)


def page(found: dict[str, Any]) -> str:
    """Return the results as Markdown."""
    rows = [
        [
            place,
            f"{1000 * taken['plain_s']:.0f} ms",
            f"{1000 * taken['lakestep_s']:.0f} ms",
            pairs.told(taken),
        ]
        for place, taken in found.items()
        if isinstance(taken, dict) and "plain_s" in taken
    ]
    heads = ["first query at a version", "plain Delta", "Lakestep", "ratio"]
    return pages.table(heads, rows)


if __name__ == "__main__":
    pages.answer(
        "past", __doc__, measure, page, rounds=25, quick_rounds=5, numbers={"latency_ms": 30}
    )
