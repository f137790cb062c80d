"""What transactions cost on versitygw, an S3 server over files, and on HDFS, beside plain Delta.

The work is that of stores.py. Nothing is added to what a request takes, and the servers have the
same two cores and disk as the drivers: the ratios are those of a store that is near. The drivers
reach versitygw by a gateway each, which logs the requests; on HDFS its client counts operations.
Requests are those of the round with the fewest, and what follows after a COMMIT is in them.

Then four clients of contention.py do their transactions in real time on versitygw, where each
request is made to take the latency longer than it takes there, and four in virtual time, whose
requests take as long as those took on average.
"""

from __future__ import annotations

import random
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import contention
import pages
import pairs
from driver import Driver
from hdfs import Hdfs
from overhead import LAKESTEP, PLAIN, check_copies, make_tables
from rich.progress import track
from s3 import BUCKET
from stores import ALLOW, WORK, Work
from versitygw import Gateways

COMPARED = [work for work in WORK if work.is_compared]


@dataclass(frozen=True)
class Place:
    """Where a driver has its tables; `count` returns how many requests the store had from it."""

    uri: str
    settings: Mapping[str, str]
    count: Callable[[Driver], int]


@contextmanager
def versitygw(work: Path) -> Iterator[dict[str, Place]]:
    """Run two gateways over one folder, one for each driver."""
    with Gateways(work, 2) as gateways:

        def place(number: int, kind: str) -> Place:
            settings = gateways.bucket(number).driver_settings
            return Place(f"s3a://{BUCKET}/{kind}", settings, lambda _: gateways.requests(number))

        yield {kind: place(number, kind) for number, kind in enumerate((PLAIN, LAKESTEP))}


@contextmanager
def hdfs(work: Path) -> Iterator[dict[str, Place]]:
    """Run a cluster."""
    work.mkdir()
    with Hdfs(work) as cluster:

        def calls(driver: Driver) -> int:
            count: int = driver.call("hdfs_calls")
            return count

        yield {kind: Place(f"{cluster.uri}/{kind}", {}, calls) for kind in (PLAIN, LAKESTEP)}


STORES = {"versitygw": versitygw, "HDFS": hdfs}


CLIENTS, LATENCY_MS = 4, 30
REAL, VIRTUAL = "versitygw", "virtual time"


def measure(work: Path, rounds: int, seed: int) -> dict[str, Any]:
    """Return medians, ratios and requests of each work on each store, and what clients did."""
    found = {name: _on(work, name, rounds, seed) for name in STORES}
    return {**found, "clients": _clients(work / "clients", seed)}


def _clients(work: Path, seed: int) -> dict[str, Any]:
    def runs(latency_ms: int, where: Sequence[str] = ()) -> dict[str, Any]:
        return contention.together(
            list(contention.lines(seed, latency_ms, (0,), (CLIENTS,), where))
        )

    with Gateways(work, 1) as gateways:
        settings = gateways.bucket(0).hadoop_settings
        real = runs(LATENCY_MS, [f"s3a://{BUCKET}/contention", *settings])
    return {REAL: real, VIRTUAL: runs(round(real["request_ms"]))}


def _on(work: Path, name: str, rounds: int, seed: int) -> dict[str, Any]:
    chance = random.Random(seed)
    with STORES[name](work / name) as places:

        def driver(kind: str) -> Driver:
            place = places[kind]
            root = None if kind == PLAIN else f"{place.uri}/timeline"
            settings = {**place.settings, **ALLOW}
            return Driver(f"{name}-{kind}".replace(" ", "-"), work, root=root, settings=settings)

        with driver(PLAIN) as plain, driver(LAKESTEP) as lakestep:
            drivers = {PLAIN: plain, LAKESTEP: lakestep}
            return {w.name: _measured(places, drivers, w, rounds, chance, seed) for w in COMPARED}


def _measured(
    places: Mapping[str, Place],
    drivers: Mapping[str, Driver],
    work: Work,
    rounds: int,
    chance: random.Random,
    seed: int,
) -> dict[str, Any]:
    seconds: dict[str, list[float]] = {kind: [] for kind in drivers}
    requests: dict[str, list[int]] = {kind: [] for kind in drivers}
    for kind, driver in drivers.items():
        make_tables(driver, places[kind].uri, work.tables)
    for number in track(range(work.warm_up + rounds), work.name, transient=True):
        for kind in chance.sample(list(drivers), len(drivers)):
            statements = work.whole(work.body(number), kind)
            before = places[kind].count(drivers[kind])
            took = drivers[kind].call("timed", statements=statements)
            drivers[kind].call("flush")
            if number >= work.warm_up:
                seconds[kind].append(sum(took))
                requests[kind].append(places[kind].count(drivers[kind]) - before)
    check_copies(list(drivers.values()), work.tables)
    return {
        "median_s": {kind: statistics.median(taken) for kind, taken in seconds.items()},
        "requests": {kind: min(counts) for kind, counts in requests.items()},
        **pairs.ratio(seconds[LAKESTEP], seconds[PLAIN], seed),
    }


HEADS = ["store", "statements", PLAIN, LAKESTEP, "÷ plain Delta (95 % interval)"]
REQUESTS = [f"requests: {PLAIN}", LAKESTEP]


def page(found: dict[str, Any]) -> str:
    """Return the results as Markdown."""
    rows = [
        [
            name,
            work.name,
            *(f"{1000 * here['median_s'][kind]:.0f} ms" for kind in (PLAIN, LAKESTEP)),
            pairs.told(here),
            *(str(here["requests"][kind]) for kind in (PLAIN, LAKESTEP)),
        ]
        for name in STORES
        for work in COMPARED
        for here in [found[name][work.name]]
    ]
    return "\n\n".join((pages.table([*HEADS, *REQUESTS], rows), _page(found["clients"])))


def _page(found: dict[str, Any]) -> str:
    heads = [f"{CLIENTS} clients", "a request", "commits a second", "tries a commit"]
    heads += ["BEGIN: median", "COMMIT: median", "99 %", "longest"]
    rows = [
        [
            kind,
            f"{run['request_ms']:.0f} ms",
            f"{run['per_second']:.1f}",
            f"{run['tries_a_commit']:.1f}",
            *(f"{ms / 1000:.2f} s" for ms in (run["begin_ms"][0], *run["commit_ms"])),
        ]
        for kind, run in found.items()
    ]
    return pages.table(heads, rows)


if __name__ == "__main__":
    pages.answer("other_stores", __doc__, measure, page, rounds=15, quick_rounds=3)
