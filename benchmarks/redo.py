"""What is saved by going back to the statement that met the conflict, instead of to the first.

Five UPDATEs, each of a table of its own, are typed in a transaction; then another session changes
the last table, or the first. COMMIT runs one UPDATE again, or all five. The two kinds take turns in
random order in one driver; at the end every row must hold both changes.
"""

from __future__ import annotations

import argparse
import random
import shutil
import statistics
from pathlib import Path

from driver import Driver
from rich.console import Console

REPOSITORY = Path(__file__).resolve().parent.parent
TABLES = [f"t{i}" for i in range(5)]
LAST, WHOLE = "the last of five", "all five"


def main() -> None:
    """Print the medians and their ratio."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=REPOSITORY / ".data")
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    work = options.data.absolute() / "redo"
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    chance = random.Random(options.seed)
    seconds: dict[str, list[float]] = {LAST: [], WHOLE: []}
    with Driver("redo", work, root=work / "timeline") as driver:
        for table in TABLES:
            driver.call(
                "sql",
                statement=f"CREATE TABLE {table} USING delta LOCATION '{work}/{table}' AS"
                " SELECT id, id % 1000 AS v FROM range(0, 100000, 1, 2)",
            )
        update = "UPDATE {} SET v = v + 1 WHERE id % 100 = 7"
        for turn in range(-2, options.rounds):
            for kind in chance.sample(list(seconds), 2):
                took = driver.call(
                    "redone",
                    statements=[update.format(table) for table in TABLES],
                    other=update.format(TABLES[-1] if kind == LAST else TABLES[0]),
                )
                if turn >= 0:
                    seconds[kind].append(took)
        done = 2 * (options.rounds + 2)
        for table in TABLES:
            extra = options.rounds + 2 if table in (TABLES[0], TABLES[-1]) else 0
            found = driver.call(
                "sql",
                statement=f"SELECT sum(v - id % 1000) FROM {table} WHERE id % 100 = 7",
            )
            assert found == [[str(1000 * (done + extra))]], (table, found)
    console = Console(highlight=False)
    for kind, took in seconds.items():
        console.print(f"COMMIT that runs {kind} again: {statistics.median(took):.2f} s")
    ratio = statistics.median(seconds[LAST]) / statistics.median(seconds[WHOLE])
    console.print(f"ratio {ratio:.2f}, {options.rounds} rounds, seed {options.seed}")


if __name__ == "__main__":
    main()
