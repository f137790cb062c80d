"""What a transaction costs: the same three statements with Lakestep and without, paired.

One driver runs them in a transaction, the other one on stock Delta, each on its own copy of two
tables. They take turns round by round in one run, and the one that is not its turn waits; so what
disturbs the machine disturbs both. At the end both copies must hold the same rows.

Requests to the store are counted apart from that, with both kinds of session on a file system that
counts them.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import random
import shutil
import signal
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from driver import Driver
from rich.console import Console
from rich.progress import track

REPOSITORY = Path(__file__).resolve().parent.parent
RESULTS = REPOSITORY / "benchmarks" / "results.json"
README = REPOSITORY / "benchmarks" / "README.md"
BEGIN_MARK, END_MARK = "<!-- overhead: written by overhead.py -->", "<!-- end of overhead -->"

TABLES = ("facts", "dims")
ROWS = 100_000
STEPS = ("INSERT", "INSERT … SELECT", "UPDATE")
SUM = "SELECT count(*), sum(id), sum(CAST(xxhash64(id, k, v) AS DECIMAL(38, 0))) FROM {}"

PLAIN, LAKESTEP, NO_SYNC = "plain Delta", "Lakestep", "Lakestep, no fsync"

COUNTING = {
    "spark.hadoop.fs.hdfs.impl": "io.lakestep.testing.CountingFileSystem",
    "spark.hadoop.fs.AbstractFileSystem.hdfs.impl": "io.lakestep.testing.CountingFileContext",
}


def statements(number: int) -> list[str]:
    """Return the three statements of a round."""
    return [
        f"INSERT INTO facts VALUES ({-number}, 1, 1), ({-number}, 2, 2)",
        f"INSERT INTO facts SELECT id + 1000000, k, v FROM dims WHERE id % 100 = {number % 100}",
        f"UPDATE dims SET v = v + 1 WHERE id % 100 = {number % 100}",
    ]


def in_transaction(body: Sequence[str]) -> list[str]:
    """Return statements as one transaction."""
    return ["BEGIN", *body, "COMMIT"]


def make_tables(driver: Driver, folder: str, names: Sequence[str]) -> None:
    """Make tables of `ROWS` rows in two files."""
    for name in names:
        driver.call(
            "sql",
            statement=f"CREATE TABLE {name} USING delta LOCATION '{folder}/{name}' AS"
            f" SELECT id, CAST(id % 7 AS INT) AS k, id % 1000 AS v FROM range(0, {ROWS}, 1, 2)",
        )


def interval(ratio: Callable[[list[int]], float], size: int, seed: int) -> tuple[float, float]:
    """Return the bootstrap 95 % interval of a ratio over resampled rounds."""
    chance = random.Random(seed)
    draws = sorted(ratio(chance.choices(range(size), k=size)) for _ in range(10_000))
    return draws[250], draws[9749]


class Timing:
    """Takes turns between the drivers and keeps the seconds of every round."""

    def __init__(self, drivers: dict[str, Driver], seed: int) -> None:
        self._drivers = drivers
        self._chance = random.Random(seed)
        self._seed = seed
        self.seconds: dict[str, list[list[float]]] = {name: [] for name in drivers}

    def round(self, number: int, *, keep: bool) -> None:
        """Run one round on every driver, in random order."""
        names = list(self._drivers)
        self._chance.shuffle(names)
        for name in names:
            body = statements(number)
            whole = body if name == PLAIN else in_transaction(body)
            seconds = self._drivers[name].call("timed", statements=whole)
            if keep:
                self.seconds[name].append(seconds)

    def totals(self, name: str) -> list[float]:
        """Return the seconds of each round."""
        return [sum(seconds) for seconds in self.seconds[name]]

    def summary(self) -> dict[str, Any]:
        """Return medians, and for each kind its ratio to plain Delta with an interval."""
        plain = self.totals(PLAIN)
        result: dict[str, Any] = {}
        for name in self._drivers:
            totals = self.totals(name)
            steps = STEPS if name == PLAIN else ("BEGIN", *STEPS, "COMMIT")
            result[name] = {
                "median_s": statistics.median(totals),
                "steps_median_s": {
                    step: statistics.median(values)
                    for step, values in zip(
                        steps, zip(*self.seconds[name], strict=True), strict=True
                    )
                },
                "rounds_s": totals,
            }
            if name != PLAIN:

                def ratio(rounds: list[int], totals: list[float] = totals) -> float:
                    ours = statistics.median(totals[i] for i in rounds)
                    return ours / statistics.median(plain[i] for i in rounds)

                size = len(plain)
                result[name]["ratio"] = ratio(list(range(size)))
                result[name]["ratio_95"] = interval(ratio, size, self._seed)
        return result


def measure(work: Path, *, rounds: int, warm_up: int, no_sync: bool, seed: int) -> dict[str, Any]:
    """Time the rounds; raise if the copies differ at the end."""
    kinds: dict[str, dict[str, str]] = {PLAIN: {}, LAKESTEP: {}}
    if no_sync:
        kinds[NO_SYNC] = {"spark.lakestep.commit.syncFiles": "false"}
    drivers: dict[str, Driver] = {}
    try:
        for index, (kind, settings) in enumerate(kinds.items()):
            root = None if kind == PLAIN else work / f"timeline{index}"
            drivers[kind] = Driver(f"timing{index}", work, root=root, settings=settings)
            make_tables(drivers[kind], f"{work}/tables{index}", TABLES)
        versions = drivers[LAKESTEP].call("versions")
        timing = Timing(drivers, seed)
        for number in track(range(warm_up + rounds), "rounds", transient=True):
            timing.round(number, keep=number >= warm_up)
        sums = [
            [driver.call("sql", statement=SUM.format(table)) for table in TABLES]
            for driver in drivers.values()
        ]
        if any(other != sums[0] for other in sums):
            raise SystemExit(f"The copies differ: {sums}")
        for driver in drivers.values():
            driver.close()
    except BaseException:
        for driver in drivers.values():
            driver.kill()
        raise
    return {"versions": versions, "rounds": rounds, "kinds": timing.summary()}


def count(work: Path, tables: int) -> dict[str, Any]:
    """Count requests of each statement, and of BEGIN, COMMIT and ROLLBACK by number of tables."""
    jar = REPOSITORY / "target" / "lakestep-tests.jar"
    settings = {**COUNTING, "spark.jars": str(jar)}
    result: dict[str, Any] = {}
    with Driver("counting-plain", work, root=None, settings=settings) as driver:
        make_tables(driver, f"hdfs://counted{work}/counted0", TABLES)
        # What is met for the first time is not counted.
        driver.call("counted", statements=statements(0))
        result[PLAIN] = dict(
            zip(STEPS, driver.call("counted", statements=statements(1)), strict=True)
        )
    root = f"hdfs://counted{work}/timeline"
    with Driver("counting-lakestep", work, root=root, settings=settings) as driver:
        folder = f"hdfs://counted{work}/counted1"
        more = [f"t{number}" for number in range(1, tables + 1)]
        make_tables(driver, folder, [*TABLES, *more])
        driver.call("counted", statements=in_transaction(statements(0)))
        counted = driver.call("counted", statements=in_transaction(statements(1)))
        result[LAKESTEP] = dict(zip(("BEGIN", *STEPS, "COMMIT"), counted, strict=True))
        protocol: dict[str, Any] = {}
        for end in ("COMMIT", "ROLLBACK"):
            # So few commits that no table gets a checkpoint, which every tenth version does.
            for size in (*range(min(tables, 4)), tables):
                whole = [
                    "BEGIN",
                    *(f"INSERT INTO {name} VALUES (0, 0, 0)" for name in more[:size]),
                    end,
                ]
                # The first one binds tables and reads what came before.
                driver.call("counted", statements=whole)
                seen = driver.call("counted", statements=whole)
                is_new = end == "COMMIT" and size > 0
                protocol[f"BEGIN, {'one' if is_new else 'no'} new entry"] = seen[0]
                protocol[f"{end} of {size} table{'s' * (size != 1)}"] = seen[-1]
        result["protocol"] = protocol
    return result


def table(results: dict[str, Any]) -> str:
    """Return the results as Markdown."""
    lines = ["| session | median of a round | ÷ plain Delta | 95 % interval |", "|---|---|---|---|"]
    for name, kind in results["kinds"].items():
        ratio, low_high = kind.get("ratio"), kind.get("ratio_95")
        shown = (
            ("1", "") if ratio is None else (f"{ratio:.2f}", "{:.2f} to {:.2f}".format(*low_high))
        )
        lines.append(f"| {name} | {kind['median_s']:.2f} s | {shown[0]} | {shown[1]} |")
    lines += ["", "| median, in ms | BEGIN | " + " | ".join(STEPS) + " | COMMIT |"]
    lines.append("|---" * (len(STEPS) + 3) + "|")
    for name, kind in results["kinds"].items():
        steps = kind["steps_median_s"]
        cells = [
            f"{1000 * steps[step]:.0f}" if step in steps else ""
            for step in ("BEGIN", *STEPS, "COMMIT")
        ]
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    requests = results["requests"]
    lines += ["", "| requests of | " + " | ".join(REQUESTS) + " | all |"]
    lines.append("|---" * (len(REQUESTS) + 2) + "|")
    for kind in (PLAIN, LAKESTEP):
        for step, counts in requests[kind].items():
            cells = [*(_of(counts, request) for request in REQUESTS), sum(counts.values())]
            lines.append(f"| {kind}: {step} | " + " | ".join(map(str, cells)) + " |")
    lines += ["", "| protocol | put-if-absent | list | get | delete |", "|---|---|---|---|---|"]
    for name, counts in requests["protocol"].items():
        puts = _of(counts, "rename")
        cells = [puts, _of(counts, "list"), _of(counts, "open"), _of(counts, "delete") - puts]
        lines.append(f"| {name} | " + " | ".join(map(str, cells)) + " |")
    return "\n".join(lines)


REQUESTS = ("open", "create", "list", "status", "rename", "mkdirs", "delete")


def _of(counts: dict[str, int], request: str) -> int:
    return sum(count for key, count in counts.items() if key.endswith(f" {request}"))


def write(results: dict[str, Any]) -> None:
    """Keep the results, and put the tables into the page."""
    RESULTS.write_text(json.dumps(results, indent=1, ensure_ascii=False) + "\n", "utf-8")
    page = README.read_text("utf-8")
    before, rest = page.split(BEGIN_MARK)
    after = rest.split(END_MARK)[1]
    on = results["on"]
    head = (
        f"{results['date']}, {results['rounds']} rounds after a warm-up; Lakestep"
        f" {on['lakestep']}, Spark {on['spark']}, Delta {on['delta']}, Java {on['java']},"
        f" {on['cpus']} cores of a shared machine (load {on['load']:.1f})."
    )
    middle = f"{BEGIN_MARK}\n\n{head}\n\n{table(results)}\n\n{END_MARK}"
    README.write_text(before + middle + after, "utf-8")


def main() -> None:
    """Run the benchmark; with --quick fewer rounds, and nothing is written."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="few rounds, nothing written")
    parser.add_argument("--data", type=Path, default=REPOSITORY / ".data")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    # Ended by a signal, the drivers are ended too.
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    console = Console(highlight=False)
    work = options.data.absolute() / "overhead"
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    began = time.monotonic()
    load = os.getloadavg()[0]

    console.print("Timing, one driver after the other …")
    if options.quick:
        measured = measure(work, rounds=5, warm_up=2, no_sync=False, seed=options.seed)
    else:
        measured = measure(work, rounds=15, warm_up=4, no_sync=True, seed=options.seed)
    console.print("Counting requests …")
    results = {
        "question": "What do three statements over two tables cost in a transaction?",
        "date": datetime.now(timezone.utc).date().isoformat(),
        "seed": options.seed,
        "on": {
            "python": platform.python_version(),
            "cpus": os.cpu_count(),
            "load": load,
            **measured["versions"],
        },
        "rounds": measured["rounds"],
        "kinds": measured["kinds"],
        "requests": count(work, 2 if options.quick else 5),
    }
    console.print(table(results), soft_wrap=True)
    console.print(f"Both copies hold the same rows. {time.monotonic() - began:.0f} s")
    if not options.quick:
        write(results)
        console.print(f"Written: {RESULTS.relative_to(REPOSITORY)} and the page beside it")


if __name__ == "__main__":
    main()
