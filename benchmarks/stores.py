"""What a transaction costs on an object store, where each request takes its time.

A server of S3 in this process, moto, answers no request in less than the latency. Two drivers work
on it, one with Lakestep, one on plain Delta, each on its own tables, and take turns round by round.
Of each statement the time counts, the requests that the server had meanwhile, and their depth: the
longest chain of requests of which each began after the one before it had ended. Requests and depth
are those of the round with the least depth: a checkpoint, which every tenth commit writes, is not
in it. What Lakestep does after a COMMIT or ROLLBACK has returned is counted and timed by itself: it
is over before the other driver goes on.

Cents are those of a thousand times the work, all its requests included, by the list price of S3
Standard in us-east-1: 0.5 for a thousand puts or listings, 0.04 for a thousand other reads, nothing
for deletions.
"""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pages
import pairs
from driver import Driver
from overhead import LAKESTEP, PLAIN, STEPS, check_copies, make_tables
from rich.progress import track
from s3 import BUCKET, S3, Request, depth
from scenarios import SMALL, THREE, eight

ALLOW = {"spark.lakestep.foreignWriters": "allow"}


@dataclass(frozen=True)
class Work:
    """Statements of a round; with Lakestep between `begin` and `end`, where there are such.

    Where the statements have `names` each has a row of its own. Work that does not end like plain
    Delta's is not compared with it. The first `warm_up` rounds are not counted.
    """

    name: str
    tables: Mapping[str, str]
    body: Callable[[int], list[str]]
    names: Sequence[str] = ()
    begin: str | None = "BEGIN"
    end: str | None = "COMMIT"
    is_compared: bool = True
    warm_up: int = 2

    def whole(self, body: Sequence[str], kind: str) -> list[str]:
        """Return statements of the body, or their names, with those around them."""
        around = [*body] if kind == PLAIN else [self.begin, *body, self.end]
        return [statement for statement in around if statement is not None]


def _again(number: int) -> list[str]:
    insert = f"INSERT INTO again VALUES ({number}, 'new')"
    return [insert, insert, "SELECT count(*) FROM again WHERE v = 'new'"]


def _outside(number: int) -> list[str]:
    return [f"INSERT INTO outside VALUES ({number}, 'new')", "SELECT count(*) FROM outside"]


WORK = (
    Work(THREE.name, THREE.tables, THREE.body, STEPS, warm_up=THREE.warm_up),
    Work("8 single-row INSERTs into 8 tables", {f"one{i}": SMALL for i in range(8)}, eight),
    Work(
        "an INSERT, another one, a SELECT, ROLLBACK",
        {"again": SMALL},
        _again,
        ("INSERT", "INSERT again", "SELECT"),
        end="ROLLBACK",
        is_compared=False,
    ),
    Work(
        "outside a transaction",
        {"outside": SMALL},
        _outside,
        ("INSERT outside", "SELECT outside"),
        begin=None,
        end=None,
    ),
)


@dataclass(frozen=True)
class Taken:
    """What a statement took, and what followed it; `cents` for a thousand of it."""

    seconds: float
    requests: int
    depth: int
    later_s: float
    later: int
    cents: float


def _cents(request: Request) -> float:
    if request.method == "DELETE" or (
        request.method == "POST" and request.key.strip("/") == BUCKET
    ):
        return 0.0
    is_listing = request.method == "GET" and request.key.strip("/") == BUCKET
    return 0.5 if is_listing or request.method in ("PUT", "POST") else 0.04


def measure(work: Path, rounds: int, seed: int, latency_ms: int) -> dict[str, Any]:
    """Return medians and ratios of each work, and requests and depth of its statements."""
    chance = random.Random(seed)
    with S3(latency_ms=latency_ms) as server:
        root = f"s3a://{BUCKET}/timeline"
        settings = server.driver_settings | ALLOW
        with (
            Driver("plain", work, root=None, settings=settings) as plain,
            Driver("lakestep", work, root=root, settings=settings) as lakestep,
        ):
            drivers = {PLAIN: plain, LAKESTEP: lakestep}
            return {
                "latency_ms": latency_ms,
                "work": {w.name: _measured(server, drivers, w, rounds, chance, seed) for w in WORK},
            }


def _measured(
    server: S3,
    drivers: dict[str, Driver],
    work: Work,
    rounds: int,
    chance: random.Random,
    seed: int,
) -> dict[str, Any]:
    taken: dict[str, list[list[Taken]]] = {name: [] for name in drivers}
    for index, driver in enumerate(drivers.values()):
        make_tables(driver, f"s3a://{BUCKET}/{index}", work.tables)
    for number in track(range(work.warm_up + rounds), work.name, transient=True):
        for name in chance.sample(list(drivers), len(drivers)):
            statements = work.whole(work.body(number), name)
            found = [_timed(server, drivers[name], statement) for statement in statements]
            if number >= work.warm_up:
                taken[name].append(found)
    if work.is_compared:
        check_copies(list(drivers.values()), work.tables)
    totals = {name: [sum(t.seconds for t in row) for row in rows] for name, rows in taken.items()}
    kinds: dict[str, Any] = {
        name: {
            "median_s": statistics.median(totals[name]),
            "cents": statistics.median(sum(t.cents for t in row) for row in rows),
            "statements": [_statement(column) for column in zip(*rows, strict=True)],
        }
        for name, rows in taken.items()
    }
    if work.is_compared:
        kinds[LAKESTEP] |= pairs.ratio(totals[LAKESTEP], totals[PLAIN], seed)
    return kinds


def _timed(server: S3, driver: Driver, statement: str) -> Taken:
    before = len(server.requests)
    [seconds] = driver.call("timed", statements=[statement])
    requests: list[Request] = server.requests[before:]
    returned_s = time.monotonic()
    driver.call("flush")
    later_s = time.monotonic() - returned_s
    whole = server.requests[before:]
    cents = sum(map(_cents, whole))
    later = len(whole) - len(requests)
    return Taken(seconds, len(requests), depth(requests), later_s, later, cents)


def _statement(rounds: Sequence[Taken]) -> dict[str, Any]:
    least = min(rounds, key=lambda taken: (taken.depth, taken.requests))
    return {
        "median_s": statistics.median(taken.seconds for taken in rounds),
        "requests": least.requests,
        "depth": least.depth,
        "later": least.later,
        "later_s": statistics.median(taken.later_s for taken in rounds),
    }


RATIOS = [
    "statements",
    PLAIN,
    LAKESTEP,
    "÷ plain Delta (95 % interval)",
    f"cents a thousand: {PLAIN}",
    LAKESTEP,
]


def page(found: dict[str, Any]) -> str:
    """Return the results as Markdown."""
    ratios, statements = [], []
    for work in WORK:
        kinds = found["work"][work.name]
        if work.is_compared:
            medians = [f"{kinds[kind]['median_s']:.2f} s" for kind in (PLAIN, LAKESTEP)]
            cents = [f"{kinds[kind]['cents']:.0f}" for kind in (PLAIN, LAKESTEP)]
            ratios.append([work.name, *medians, pairs.told(kinds[LAKESTEP]), *cents])
        for kind in (PLAIN, LAKESTEP):
            if work.names:
                names = work.whole(work.names, kind)
                statements += [
                    [
                        f"{kind}: {name}",
                        f"{t['requests']} + {t['later']}" if t["later"] else str(t["requests"]),
                        str(t["depth"]),
                        f"{t['median_s']:.2f} s"
                        + (f" + {t['later_s']:.2f} s" if t["later"] else ""),
                    ]
                    for name, t in zip(names, kinds[kind]["statements"], strict=True)
                ]
    return "\n\n".join(
        (
            f"Each request takes {found['latency_ms']} ms.",
            pages.table(RATIOS, ratios),
            pages.table(["statement", "requests", "depth", "median"], statements),
        )
    )


if __name__ == "__main__":
    pages.answer(
        "stores",
        __doc__,
        measure,
        page,
        rounds=9,
        quick_rounds=3,
        numbers={"latency_ms": 30},
    )
