"""How BEGIN, COMMIT and the first touch of a table grow: with tables, the timeline, and drivers.

And whether a driver's memory grows with its transactions.

The timelines are made from what one transaction left behind; Lakestep then reads them as it would
any other. What is compared takes turns in one run.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import statistics
import time
from contextlib import ExitStack
from itertools import chain
from pathlib import Path
from typing import Any

import pages
import pairs
from blake3 import blake3
from driver import TEST_JAR, Driver
from rich.console import Console
from rich.progress import track

REPOSITORY = Path(__file__).resolve().parent.parent
WARM_UP = 1
LAKESTEP, PLAIN = "lakestep", "plain"
# Of COMMIT, by tables; the ratios are to a COMMIT of 2 tables.
GOALS = {"2": ("40 ms", "80 ms"), "32": ("2", "4"), "200": ("8", "16")}


def tables(driver: Driver, folder: Path, count: int) -> list[str]:
    """Make empty tables, by plain Delta; return their names in SQL."""
    names = [f"delta.`{folder}/t{number}`" for number in range(count)]
    made = [f"CREATE TABLE {name} (id BIGINT, v STRING) USING delta" for name in names]
    driver.call("timed", statements=made)
    return names


def transaction(names: list[str]) -> list[str]:
    """Return a transaction that inserts one row into each table."""
    return ["BEGIN", *(f"INSERT INTO {name} VALUES (1, 'new')" for name in names), "COMMIT"]


def commits(
    driver: Driver, work: Path, rounds: dict[int, int], chance: random.Random
) -> dict[str, Any]:
    """Time BEGIN and COMMIT of so many tables, in so many rounds.

    Each number has tables of its own, which get their checkpoints in the same round.
    """
    seconds: dict[int, list[list[float]]] = {size: [] for size in rounds}
    bodies = {size: transaction(tables(driver, work / f"tables{size}", size)) for size in rounds}
    turns = [size for size, count in rounds.items() for _ in range(count + WARM_UP)]
    chance.shuffle(turns)
    for size in track(turns, "COMMIT by tables", transient=True):
        seconds[size].append(driver.call("timed", statements=bodies[size]))
    smallest = _median(seconds[min(rounds)], -1)
    return {
        str(size): {
            "rounds": len(taken) - WARM_UP,
            "begin_s": _median(taken, 0),
            "commit_s": _median(taken, -1),
            "of_smallest": _median(taken, -1) / smallest,
        }
        for size, taken in seconds.items()
    }


def _median(taken: list[list[float]], step: int) -> float:
    """Return the median of a step, without the first rounds."""
    return statistics.median(seconds[step] for seconds in taken[WARM_UP:])


def touches(
    drivers: dict[str, Driver], work: Path, rounds: int, chance: random.Random
) -> dict[str, Any]:
    """Time the analysis of a query over a table that has just been changed."""
    seconds: dict[str, list[float]] = {kind: [] for kind in drivers}
    query = "SELECT count(*), max(v) FROM {}"
    names = {kind: tables(driver, work / kind, 1)[0] for kind, driver in drivers.items()}
    for turn in track(range(2 * rounds), "first touch", transient=True):
        for kind in chance.sample(list(drivers), 2):
            driver, name = drivers[kind], names[kind]
            begins = kind == LAKESTEP
            change = transaction([name])
            driver.call("timed", statements=change if begins else change[1:-1])
            if begins:
                driver.call("timed", statements=["BEGIN"])
            [took] = driver.call("analysed", queries=[query.format(name)])
            if begins:
                driver.call("timed", statements=["ROLLBACK"])
            if turn >= rounds:
                seconds[kind].append(took)
    medians = {kind: statistics.median(taken) for kind, taken in seconds.items()}
    return {"rounds": rounds, **medians, "beyond_s": medians[LAKESTEP] - medians[PLAIN]}


def memory(work: Path, transactions: int) -> dict[str, Any]:
    """Return what a driver holds before and after so many transactions over ten tables.

    Another one does the same INSERTs on plain Delta beside it, as Spark's own pools grow, too.
    """
    settings = {"spark.jars": str(TEST_JAR)}
    with (
        Driver("memory", work, root=work / "held", settings=settings) as ours,
        Driver("memory-plain", work, root=None, settings=settings) as plain,
    ):
        drivers = {LAKESTEP: ours, PLAIN: plain}
        names = {
            kind: tables(driver, work / f"filled-{kind}", 10) for kind, driver in drivers.items()
        }

        def held(count: int) -> dict[str, list[int]]:
            running = []
            for kind, driver in drivers.items():
                cut = slice(None) if kind == LAKESTEP else slice(1, -1)
                whole = [transaction([names[kind][turn % 10]])[cut] for turn in range(count)]
                running.append(driver.start("timed", statements=[*chain.from_iterable(whole)]))
            for call in running:
                call.result()
            return {kind: driver.call("held") for kind, driver in drivers.items()}

        before = held(transactions // 10)
        return {"transactions": transactions, "before": before, "after": held(transactions)}


# Of a timeline that is longer nobody reads what is older than its checkpoint, so it need not say
# anything; of a shorter one all entries are real, and the first process finds no checkpoint.
LONGEST_REAL = 50_000
# The checkpoint of a longer one, that many entries from its end, and names that one file can have.
AFTER_CHECKPOINT, MOST_LINKS = 100, 60_000


def timeline(root: Path, model: Path, entries: int, logs: int) -> None:
    """Write a timeline of finished entries over so many tables, each like that of the model."""
    folder = root / "timeline"
    folder.mkdir(parents=True)
    shutil.copy(model / "format.json", root)
    entry = json.loads((model / "timeline" / f"{1:020}.json").read_bytes())
    outcome = json.loads((model / "timeline" / f"{1:020}.outcome.json").read_bytes())
    [written] = entry["tables"]
    previous = ""
    first = 1 if entries <= LONGEST_REAL else entries - AFTER_CHECKPOINT
    for number in track(range(1, first), f"{entries:,} names", transient=True):
        if number % (MOST_LINKS // 2) == 1:
            filler = root / f"filler{number}"
            filler.write_text("nobody reads this")
        for kind in ("json", "outcome.json"):
            os.link(filler, f"{folder}/{number:020}.{kind}")
    for number in track(range(first, entries + 1), f"{entries:,} entries", transient=True):
        turn, log = divmod(number - 1, logs)
        written |= {"log": f"{log:032x}", "path": f"file:/lake/t{log}", "pin": turn, "base": turn}
        entry |= {"number": number, "previous": previous}
        entry["transaction"] |= {"id": f"t{number:032x}", "snapshot": number - 1}
        content = json.dumps(entry).encode()
        previous = blake3(content).hexdigest()
        outcome |= {"number": number, "entryHash": previous, "slots": [[turn + 1]]}
        (folder / f"{number:020}.json").write_bytes(content)
        (folder / f"{number:020}.outcome.json").write_bytes(json.dumps(outcome).encode())
        if number == first > 1:
            checkpoint(root, number, previous, logs, written["tableId"])


def checkpoint(root: Path, number: int, content: str, logs: int, table_id: str) -> None:
    """Write what the entries up to one leave behind, as a client that has read them would."""
    left = []
    for log in range(logs):
        last = number - (number - 1 - log) % logs
        left.append(
            {"log": f"{log:032x}", "path": f"file:/lake/t{log}", "tableId": table_id}
            | {"lastEntry": last, "markEntry": last, "markSlot": (last - 1) // logs + 1}
        )
    kept: dict[str, Any] = {"number": number, "hash": content, "requiredFeatures": []}
    kept |= {"logs": left, "aborted": []}
    kept["sum"] = blake3(json.dumps(kept, separators=(",", ":")).encode()).hexdigest()
    file = root / "checkpoints" / f"{number:020}.json"
    file.parent.mkdir()
    file.write_text(json.dumps(kept))


def timelines(
    work: Path, sizes: dict[str, tuple[int, int]], rounds: int, chance: random.Random, seed: int
) -> dict[str, Any]:
    """Time a transaction of one table behind timelines of so many entries and tables."""
    model = work / "model"
    with Driver("model", work, root=model) as driver:
        [modelled, *names] = tables(driver, work / "behind", 1 + len(sizes))
        warm = transaction([modelled])
        driver.call("timed", statements=warm)
    result: dict[str, Any] = {}
    roots: dict[str, str] = {}
    bodies = {kind: transaction([name]) for kind, name in zip(sizes, names, strict=True)}
    taken: dict[str, list[float]] = {kind: [] for kind in sizes}
    for number, (kind, (entries, logs)) in enumerate(sizes.items()):
        root = work / f"timeline{number}"
        timeline(root, model, entries, logs)
        roots[kind] = str(root)
        result[kind] = {"entries": entries, "tables": logs, "rounds": rounds}
    # The first process finds no checkpoint of timelines that are not too long, and leaves one.
    for which in ("first_begin_s", "with_checkpoint_s"):
        with Driver(which, work, root=model) as driver:
            driver.call("timed", statements=warm)
            for kind, place in roots.items():
                result[kind][which] = driver.call("timed", statements=bodies[kind], root=place)[0]
            if which == "first_begin_s":
                continue
            for turn in track(range(rounds + 4), "long timelines", transient=True):
                for kind in chance.sample(list(sizes), len(sizes)):
                    call = {"statements": bodies[kind], "root": roots[kind]}
                    seconds = driver.call("timed", **call)
                    if turn >= 4:
                        taken[kind].append(seconds[0] + seconds[-1])
    first = taken[next(iter(sizes))]
    for kind, seconds in taken.items():
        result[kind]["begin_and_commit_s"] = statistics.median(seconds)
        result[kind] |= pairs.ratio(seconds, first, seed)
    return result


def side_by_side(
    drivers: list[Driver], work: Path, transactions: int, chance: random.Random
) -> dict[str, Any]:
    """Count transactions a second of 1, 2, 4 … drivers that write a pair of tables each.

    Beside them the same INSERTs by the same sessions outside transactions.
    """
    root = str(work / "sides")
    pairs_of = [tables(driver, work / f"pair{i}", 2) for i, driver in enumerate(drivers)]
    kinds = {
        "transactions": [transaction(pair) for pair in pairs_of],
        "outside": [transaction(pair)[1:-1] for pair in pairs_of],
    }

    def run(count: int, kind: str, times: int) -> tuple[float, list[list[float]]]:
        together = list(zip(drivers[:count], kinds[kind], strict=False))
        began = time.monotonic()
        running = [
            driver.start("timed", statements=body * times, root=root) for driver, body in together
        ]
        taken = [call.result() for call in running]
        return count * times / (time.monotonic() - began), taken

    # Cold, a driver fills both cores by compiling.
    run(len(drivers), "transactions", 2 * transactions)
    result: dict[str, Any] = {}
    for count in track([n for n in (1, 2, 4) if n <= len(drivers)], "drivers", transient=True):
        ran = {kind: run(count, kind, transactions) for kind in chance.sample(list(kinds), 2)}
        per_second, taken = ran["transactions"]
        result[str(count)] = {
            "per_second": per_second,
            "outside_per_second": ran["outside"][0],
            "commit_s": statistics.median(s for seconds in taken for s in seconds[3::4]),
        }
    return result


def _ms(seconds: float) -> str:
    return f"{1000 * seconds:.0f} ms"


def page(found: dict[str, Any]) -> str:
    """Return the results as Markdown."""
    touch = found["touches"]
    return "\n\n".join(
        (
            pages.run_of(found),
            pages.table(
                ["COMMIT of", "median", "÷ COMMIT of 2", "goal", "floor", "BEGIN", "rounds"],
                [
                    [
                        f"{size} tables",
                        _ms(c["commit_s"]),
                        f"{c['of_smallest']:.1f}",
                        *GOALS.get(size, ("", "")),
                        _ms(c["begin_s"]),
                        str(c["rounds"]),
                    ]
                    for size, c in found["commits"].items()
                ],
            ),
            "The first touch of a table that a commit has just changed, in the analysis of a query,"
            f" takes {_ms(touch[LAKESTEP])} in a transaction, and {_ms(touch[PLAIN])} on plain"
            f" Delta: {_ms(touch['beyond_s'])} more ({touch['rounds']} rounds).",
            pages.table(
                [
                    "timeline",
                    "BEGIN + COMMIT",
                    "÷ the first",
                    "first BEGIN of a process, without a checkpoint",
                    "with one",
                ],
                [
                    [
                        kind,
                        _ms(t["begin_and_commit_s"]),
                        pairs.told(t),
                        f"{t['first_begin_s']:.2f} s" if t["entries"] <= LONGEST_REAL else "",
                        f"{t['with_checkpoint_s']:.2f} s",
                    ]
                    for kind, t in found["timelines"].items()
                ],
            ),
            *([_together(found["drivers"])] if "drivers" in found else []),
            *([_held(found["memory"])] if "memory" in found else []),
        )
    )


def _together(found: dict[str, Any]) -> str:
    return pages.table(
        ["drivers", "transactions a second", "COMMIT", "pairs of INSERTs a second outside"],
        [
            [
                count,
                f"{d['per_second']:.1f}",
                _ms(d["commit_s"]),
                f"{d['outside_per_second']:.1f}",
            ]
            for count, d in found.items()
        ],
    )


def _held(found: dict[str, Any]) -> str:
    return pages.table(
        ["a driver holds", "file systems", "Delta logs", "threads", "heap"],
        [
            [f"{name}, {when}", *map(str, counts), f"{heap / 2**20:.0f} MiB"]
            for kind, name in ((LAKESTEP, "Lakestep"), (PLAIN, "plain Delta"))
            for when, (*counts, heap) in (
                ("at first", found["before"][kind]),
                (f"{found['transactions']} rounds later", found["after"][kind]),
            )
        ],
    )


def main() -> None:
    """Run the benchmark; with --quick only the small ones, and nothing is written."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--data", type=Path, default=REPOSITORY / ".data")
    parser.add_argument("--entries", type=int, help="of the longest timeline")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    work = options.data.absolute() / "growth"
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    quick, seed = options.quick, options.seed
    chance = random.Random(seed)
    many = options.entries or (2_000 if quick else 1_000_000)
    sizes = {
        "100 entries, 10 tables": (100, 10),
        f"{many:,} entries, 10 tables": (many, 10),
        f"{many // 50:,} entries, {many // 100:,} tables": (many // 50, many // 100),
    }
    console = Console(highlight=False)
    began = time.monotonic()
    found = pages.circumstances()

    def keep(part: str, what: dict[str, Any]) -> None:
        found[part] = what
        console.print(f"{time.monotonic() - began:5.0f} s  {part}")

    with ExitStack() as stack:
        ours, plain, *others = (
            stack.enter_context(
                Driver(name, work, root=None if name == PLAIN else work / "timeline")
            )
            for name in (LAKESTEP, PLAIN, *([] if quick else ["second", "third", "fourth"]))
        )
        # First what compares drivers, while all have done the same.
        both = {LAKESTEP: ours, PLAIN: plain}
        keep("touches", touches(both, work, 3 if quick else 15, chance))
        if not quick:
            keep("drivers", side_by_side([ours, *others], work, 10, chance))
        sized = {2: 5, 8: 3} if quick else {2: 16, 32: 8, 200: 5}
        keep("commits", commits(ours, work, sized, chance))
    if not quick:
        keep("memory", memory(work, 300))
    # Millions of files want the memory that drivers take.
    keep("timelines", timelines(work, sizes, 5 if quick else 25, chance, seed))
    console.print(page(found), soft_wrap=True)
    if not quick:
        pages.keep("growth", {"growth": found}, page(found))
    shutil.rmtree(work)


if __name__ == "__main__":
    main()
