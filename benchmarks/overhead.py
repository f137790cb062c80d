"""What a transaction costs: the same statements with Lakestep and without, paired.

One driver runs them in a transaction, the other one on stock Delta, each on its own copy of the
tables. They take turns round by round in one run, and the one that is not its turn waits; so what
disturbs the machine disturbs both. At the end both copies must hold the same rows.

Requests to the store are counted apart from that, with both kinds of session on a file system that
counts them.
"""

from __future__ import annotations

import argparse
import os
import platform
import random
import re
import shutil
import signal
import statistics
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pages
import pairs
from driver import TEST_JAR, Driver
from rich.console import Console
from rich.progress import track
from scenarios import GENERATED, THREE, TPCH, Scenario, tpch_scenarios

REPOSITORY = Path(__file__).resolve().parent.parent

STEPS = ("INSERT", "INSERT … SELECT", "UPDATE")
SUM = "SELECT count(*), sum(CAST(xxhash64(*) AS DECIMAL(38, 0))) FROM {}"

PLAIN, LAKESTEP = "plain Delta", "Lakestep"

COUNTING = {
    "spark.hadoop.fs.hdfs.impl": "io.lakestep.testing.CountingFileSystem",
    "spark.hadoop.fs.AbstractFileSystem.hdfs.impl": "io.lakestep.testing.CountingFileContext",
}


def in_transaction(body: Sequence[str]) -> list[str]:
    """Return statements as one transaction."""
    return ["BEGIN", *body, "COMMIT"]


def make_tables(driver: Driver, folder: str, tables: Mapping[str, str]) -> None:
    """Make tables, each from the query that names its first rows; those that exist stay."""
    for name, query in tables.items():
        driver.call(
            "sql",
            statement=f"CREATE TABLE IF NOT EXISTS {name} USING delta"
            f" LOCATION '{folder}/{name}' AS {query}",
        )


def copy_tables(
    drivers: Iterable[Driver], folders: Sequence[Path], scenario: Scenario, model: Path
) -> None:
    """Let a driver that is not compared make tables, and give the others copies.

    Those that exist stay.
    """
    if not model.exists():
        model.mkdir()
        with Driver("maker", model, root=None, settings=scenario.made_with) as maker:
            make_tables(maker, str(model), scenario.tables)
    for driver, folder in zip(drivers, folders, strict=True):
        for name in scenario.tables:
            if (folder / name).exists():
                continue
            shutil.copytree(model / name, folder / name)
            driver.call(
                "sql", statement=f"CREATE TABLE {name} USING delta LOCATION '{folder}/{name}'"
            )


def check_copies(drivers: Sequence[Driver], tables: Iterable[str]) -> None:
    """Raise if the copies of a table differ."""
    for table in tables:
        sums = [driver.call("sql", statement=SUM.format(table)) for driver in drivers]
        if any(other != sums[0] for other in sums):
            raise SystemExit(f"The copies of {table} differ: {sums}")


class Timing:
    """Takes turns between the drivers and keeps the seconds of every round of a scenario."""

    def __init__(self, scenario: Scenario, seed: int) -> None:
        self._scenario = scenario
        self._chance = random.Random(seed)
        self._seed = seed
        self._forks = 0
        self.seconds: dict[str, list[list[float]]] = {PLAIN: [], LAKESTEP: []}

    def run(self, drivers: Mapping[str, Driver], *, rounds: int, warm_up: int) -> None:
        """Run the rounds of a fork; raise if the copies of a table differ at the end."""
        self._forks += 1
        for number in track(range(warm_up + rounds), self._scenario.name, transient=True):
            self._round(drivers, number, keep=number >= warm_up)
        check_copies(list(drivers.values()), self._scenario.tables)

    def _round(self, drivers: Mapping[str, Driver], number: int, *, keep: bool) -> None:
        names = list(drivers)
        self._chance.shuffle(names)
        for name in names:
            body = self._scenario.body(number)
            is_plain = name == PLAIN or not self._scenario.in_transaction
            whole = body if is_plain else in_transaction(body)
            seconds = drivers[name].call("timed", statements=whole)
            if keep:
                self.seconds[name].append(seconds)

    def totals(self, name: str) -> list[float]:
        """Return the seconds of each round."""
        begun = self._scenario.in_transaction and name != PLAIN
        cut = slice(1, -1) if begun and self._scenario.only_body else slice(None)
        return [sum(seconds[cut]) for seconds in self.seconds[name]]

    def summary(self) -> dict[str, Any]:
        """Return medians, and the ratio to plain Delta with its interval."""
        plain = self.totals(PLAIN)
        kinds: dict[str, Any] = {}
        for name in self.seconds:
            totals = self.totals(name)
            kinds[name] = {
                "median_s": statistics.median(totals),
                "statements_median_s": [
                    statistics.median(values) for values in zip(*self.seconds[name], strict=True)
                ],
                "rounds_s": totals,
            }
            if name != PLAIN:
                kinds[name] |= pairs.ratio(totals, plain, self._seed, self._forks)
        return {"goal": self._scenario.goal, "floor": self._scenario.floor, "kinds": kinds}


def measure(
    work: Path, scenarios: Sequence[Scenario], *, quick: bool, seed: int
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Time every scenario; yield what was found, and on what, by name."""
    for forks in dict.fromkeys(s.forks for s in scenarios):
        chosen = [s for s in scenarios if s.forks == forks]
        timings = {s.name: Timing(s, seed) for s in chosen}
        last = 0 if quick else forks - 1
        for fork in range(last + 1):
            folder = Path(tempfile.mkdtemp(dir=work))
            with (
                Driver("plain", folder, root=None) as plain,
                Driver("lakestep", folder, root=folder / "timeline") as lakestep,
            ):
                drivers = {PLAIN: plain, LAKESTEP: lakestep}
                for s in chosen:
                    on = _run(folder, drivers, s, timings[s.name], quick=quick)
                    if fork == last:
                        on |= {"forks": last + 1, "rounds": on["rounds"] * (last + 1)}
                        yield s.name, {"on": on, **timings[s.name].summary()}


def _run(
    folder: Path, drivers: Mapping[str, Driver], scenario: Scenario, timing: Timing, *, quick: bool
) -> dict[str, Any]:
    """Run a scenario in these drivers; return on what."""
    for driver in drivers.values():
        driver.call("configure", settings=dict(scenario.settings))
    folders = [folder / f"tables{index}" for index in range(len(drivers))]
    if scenario.made_once:
        model = folder.parent / "-".join(scenario.tables)
        copy_tables(drivers.values(), folders, scenario, model)
    else:
        for driver, own in zip(drivers.values(), folders, strict=True):
            make_tables(driver, str(own), scenario.tables)
    warm_up, rounds = (2, 5) if quick else (scenario.warm_up, scenario.rounds)
    versions = drivers[LAKESTEP].call("versions")
    on = {**pages.circumstances(), "rounds": rounds, "versions": versions}
    timing.run(drivers, rounds=rounds, warm_up=warm_up)
    return on


def count(work: Path, tables: int) -> dict[str, Any]:
    """Count requests of each statement, and of BEGIN, COMMIT and ROLLBACK by number of tables."""
    settings = {**COUNTING, "spark.jars": str(TEST_JAR)}
    result: dict[str, Any] = {}
    with Driver("counting-plain", work, root=None, settings=settings) as driver:
        make_tables(driver, f"hdfs://counted{work}/counted0", THREE.tables)
        # What is met for the first time is not counted.
        driver.call("counted", statements=THREE.body(0))
        result[PLAIN] = dict(
            zip(STEPS, driver.call("counted", statements=THREE.body(1)), strict=True)
        )
    root = f"hdfs://counted{work}/timeline"
    with Driver("counting-lakestep", work, root=root, settings=settings) as driver:
        folder = f"hdfs://counted{work}/counted1"
        more = [f"t{number}" for number in range(1, tables + 1)]
        rows = next(iter(THREE.tables.values()))
        make_tables(driver, folder, {**THREE.tables, **dict.fromkeys(more, rows)})
        driver.call("counted", statements=in_transaction(THREE.body(0)))
        counted = driver.call("counted", statements=in_transaction(THREE.body(1)))
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
                protocol["BEGIN"] = seen[0]
                protocol[f"{end} of {size} table{'s' * (size != 1)}"] = seen[-1]
        result["protocol"] = protocol
    return result


def _rounds(on: Mapping[str, Any]) -> str:
    """Return how many rounds were taken, and in how many pairs of drivers if in several."""
    forks = on.get("forks", 1)
    return f"{on['rounds']} in {forks} pairs" if forks > 1 else str(on["rounds"])


def table(results: dict[str, Any]) -> str:
    """Return the results as Markdown."""
    lines = [
        "| statements | plain Delta | Lakestep | ÷ plain Delta | 95 % interval | goal | floor |"
        " rounds | load | date |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for name, scenario in results["scenarios"].items():
        kinds = scenario["kinds"]
        ours, plain = kinds[LAKESTEP], kinds[PLAIN]
        cells = [
            f"{plain['median_s']:.2f} s",
            f"{ours['median_s']:.2f} s",
            f"{ours['ratio']:.2f}",
            "{:.2f} to {:.2f}".format(*ours["ratio_95"]),
            str(scenario["goal"]),
            str(scenario["floor"]),
            _rounds(scenario["on"]),
            f"{scenario['on']['load']:.1f}",
            scenario["on"]["date"],
        ]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    lines += ["", "| median, in ms | BEGIN | " + " | ".join(STEPS) + " | COMMIT |"]
    lines.append("|---" * (len(STEPS) + 3) + "|")
    three = results["scenarios"].get(THREE.name, {"kinds": {}})
    for name, kind in three["kinds"].items():
        cells = [f"{1000 * seconds:.0f}" for seconds in kind["statements_median_s"]]
        cells = ["", *cells, ""] if name == PLAIN else cells
        lines.append(f"| {name} | {' | '.join(cells)} |")
    requests = results["requests"]
    if not requests:
        return "\n".join(lines)
    lines += ["", "| requests of | " + " | ".join(REQUESTS) + " | all |"]
    lines.append("|---" * (len(REQUESTS) + 2) + "|")
    for kind in (PLAIN, LAKESTEP):
        for step, counts in requests[kind].items():
            cells = [*(_of(counts, request) for request in REQUESTS), sum(counts.values())]
            lines.append(f"| {kind}: {step} | " + " | ".join(map(str, cells)) + " |")
    lines += ["", "| protocol | put-if-absent | list | get | delete |", "|---|---|---|---|---|"]
    for name, counts in requests["protocol"].items():
        cells = [_of(counts, request) for request in ("rename", "list", "open", "delete")]
        lines.append(f"| {name} | " + " | ".join(map(str, cells)) + " |")
    return "\n".join(lines)


REQUESTS = ("open", "create", "list", "status", "rename", "mkdirs", "delete")


def _of(counts: dict[str, int], request: str) -> int:
    return sum(count for key, count in counts.items() if key.endswith(f" {request}"))


def main() -> None:
    """Run the benchmark; with --only the rest of the results stays, with --quick all of them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--quick", action="store_true", help="few scenarios and rounds, nothing written"
    )
    parser.add_argument("--data", type=Path, default=REPOSITORY / ".data")
    parser.add_argument("--only", default="", help="scenarios, and requests, by regular expression")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    # Ended by a signal, the drivers are ended too.
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    console = Console(highlight=False)
    work = options.data.absolute() / "overhead"
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    began = time.monotonic()

    def is_chosen(name: str, *, quick: bool = False) -> bool:
        everything = options.only or not options.quick
        return bool(everything or quick) and re.search(options.only, name) is not None

    kept = {} if options.quick else pages.known()
    results: dict[str, Any] = {
        "question": "What do statements cost in a transaction?",
        "seed": options.seed,
        "python": platform.python_version(),
        "cpus": os.cpu_count(),
        "scenarios": kept.get("scenarios", {}),
        "requests": kept.get("requests", {}),
    }

    def keep() -> None:
        if not options.quick:
            found = results["scenarios"]
            names = [s.name for s in GENERATED] + list(TPCH)
            results["scenarios"] = {name: found[name] for name in names if name in found}
            pages.keep("overhead", results, f"{_versions(results)}\n\n{table(results)}")

    console.print("Timing, one driver after the other …")
    scenarios = [s for s in GENERATED if is_chosen(s.name, quick=s.quick)]
    if any(map(is_chosen, TPCH)):
        scenarios += [s for s in tpch_scenarios(work) if is_chosen(s.name)]
    for name, found in measure(work, scenarios, quick=options.quick, seed=options.seed):
        results["scenarios"][name] = found
        told = pairs.told(found["kinds"][LAKESTEP])
        console.print(f"{time.monotonic() - began:5.0f} s  {name}: {told}")
        keep()
    if is_chosen("requests"):
        console.print("Counting requests …")
        results["requests"] = count(work, 2 if options.quick else 5)
        keep()
    console.print(table(results), soft_wrap=True)
    console.print(f"Both copies hold the same rows. {time.monotonic() - began:.0f} s")


def _versions(results: dict[str, Any]) -> str:
    on = next(reversed(results["scenarios"].values()))["on"]["versions"]
    return (
        f"Lakestep {on['lakestep']}, Spark {on['spark']}, Delta {on['delta']},"
        f" Java {on['java']}, Python {results['python']},"
        f" {results['cpus']} cores of a shared machine."
    )


if __name__ == "__main__":
    main()
