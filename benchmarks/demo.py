"""The main job: TPC-H's refresh functions as transactions over two existing Delta tables.

Each transaction changes orders and lineitem together, while another process keeps looking for
orders without lineitems and lineitems without orders. What is claimed is checked: the exit status
is 0 only if all of it was so.
"""

from __future__ import annotations

import argparse
import contextlib
import shutil
import signal
import statistics
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import tpch
from driver import TEST_JAR, Driver
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

REPOSITORY = Path(__file__).resolve().parent.parent
SCALE = 0.1
ORDERS_A_REFRESH = round(SCALE * 1500)
HALTING = {
    "spark.lakestep.commit.observer": "io.lakestep.testing.HaltingObserver",
    # One table after the other, so that there is a moment between the two.
    "spark.lakestep.commit.publishThreads": "1",
}


class Claims:
    """What has to be true; remembers what was not."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self.failed: list[str] = []

    def hold(self, claim: str, is_true: bool) -> None:
        """Note whether a claim is true."""
        if not is_true:
            self.failed.append(claim)
            self._console.print(f"[bold red]NOT SO:[/] {claim}")


class Checks:
    """Every snapshot that the checking process took, and whether it was whole."""

    def __init__(self, checker: Driver) -> None:
        self._checker = checker
        self.begin_s: list[float] = []
        self.states: list[tpch.State] = []
        self.torn: list[dict[str, int]] = []

    def one(self) -> tpch.State:
        """Take one snapshot."""
        found = self._checker.call("check")
        self.begin_s.append(found.pop("begin_s"))
        found.pop("seconds")
        if found["orders_alone"] or found["lineitems_alone"]:
            self.torn.append(found)
        state = tpch.State(
            found["orders"], found["order_keys"], found["lineitems"], found["lineitem_keys"]
        )
        self.states.append(state)
        return state

    @contextlib.contextmanager
    def meanwhile(self) -> Iterator[None]:
        """Take one snapshot after another while the body runs, and one after it."""
        stop = threading.Event()
        errors: list[BaseException] = []

        def loop() -> None:
            try:
                while not stop.is_set():
                    self.one()
            except BaseException as error:
                errors.append(error)

        thread = threading.Thread(target=loop, name="checks")
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join()
        if errors:
            raise errors[0]
        self.one()


def in_order(seen: list[tpch.State], possible: list[tpch.State]) -> bool:
    """Return whether `seen` walks through `possible` and never goes back."""
    place = 0
    for state in seen:
        if state not in possible[place:]:
            return False
        place = possible.index(state, place)
    return True


def newest_version(tables: Path, table: str) -> int:
    """Return the newest version in a Delta log."""
    return max(int(file.stem) for file in (tables / table / "_delta_log").glob("[0-9]*.json"))


class Demo:
    """The steps of the main job, in the order in which they run."""

    def __init__(self, console: Console, data: Path, pairs: int) -> None:
        self._console = console
        self._pairs = pairs
        self._files = data / f"tpch-{SCALE}"
        self._work = data / "demo"
        self._tables = self._work / "tables"
        self._refreshes = self._work / "refreshes"
        self._root = self._work / "timeline"
        self._claims = Claims(console)
        self._report: list[tuple[str, str]] = []
        self._began = time.monotonic()

    def run(self) -> bool:
        """Run all steps and return whether every claim held."""
        shutil.rmtree(self._work, ignore_errors=True)
        self._refreshes.mkdir(parents=True)
        self._tables.mkdir()

        with contextlib.ExitStack() as drivers:
            self._say("Starting a session without Lakestep, and the checking process with it")
            plain = drivers.enter_context(Driver("plain", self._work, root=None))
            checker = drivers.enter_context(Driver("checker", self._work, root=self._root))
            self._say(f"TPC-H at scale {SCALE}, by tpchgen-cli")
            tpch.generate(self._files, SCALE)
            # One refresh for plain Delta, ten pairs, and one whose driver is killed.
            self._reference = tpch.Reference(
                self._files, self._refreshes, held_back=self._pairs + 2, orders=ORDERS_A_REFRESH
            )
            loaded = self._reference.state()
            untouched = self._reference.answer(tpch.Q1)
            self._say("Loading orders and lineitem as plain Delta tables")
            began = time.monotonic()
            plain.call(
                "load",
                files=str(self._files),
                tables=str(self._tables),
                below=self._reference.first_held_back,
            )
            self._fact(
                "loaded by plain Delta",
                f"{loaded.orders:,} orders, {loaded.lineitems:,} lineitems"
                f" in {time.monotonic() - began:.1f} s",
            )

            checker.call("attach", tables=str(self._tables))
            self._contrast(plain, checker)
            plain.close()

            self._say("Starting the refreshing process, with Lakestep")
            writer = drivers.enter_context(
                Driver(
                    "writer",
                    self._work,
                    root=self._root,
                    settings={**HALTING, "spark.jars": str(TEST_JAR)},
                )
            )
            writer.call("attach", tables=str(self._tables))
            checks = Checks(checker)
            self._refresh(writer, checks)
            self._kill(writer, checks)
            self._compare(checker, untouched)
        return self._end()

    def _contrast(self, plain: Driver, checker: Driver) -> None:
        """Hold a plain writer between the two commits of the same refresh."""
        self._say("For contrast: one refresh by plain Delta, held between its two commits")
        plain.call("attach", tables=str(self._tables))
        checks = Checks(checker)
        checks.one()
        refresh = self._reference.rf1(0)
        plain.call("sql", statement=refresh.statements[0])
        # The writer waits here for its next statement; this is when the others look.
        checks.one()
        plain.call("sql", statement=refresh.statements[1])
        checks.one()
        self._claims.hold(
            "without a transaction the checker sees the torn state, and only while it is there",
            [torn["orders_alone"] for torn in checks.torn] == [ORDERS_A_REFRESH],
        )
        self._claims.hold(
            "the plain refresh ends in the expected state",
            checks.states[-1] == self._reference.state(),
        )
        self._fact(
            "without Lakestep",
            f"{len(checks.torn)} torn state in {len(checks.states)} snapshots"
            f" ({checks.torn[0]['orders_alone'] if checks.torn else 0} orders without lineitems)",
        )

    def _refresh(self, writer: Driver, checks: Checks) -> None:
        """Run ten pairs of RF1 and RF2, each one transaction over both tables."""
        possible = [self._reference.state()]
        seconds: list[float] = []
        commits: list[float] = []
        rows = 0
        with self._progress() as progress:
            task = progress.add_task("refresh transactions", total=2 * self._pairs, found="")
            began = time.monotonic()
            with checks.meanwhile():
                for number in range(1, self._pairs + 1):
                    for function in (self._reference.rf1, self._reference.rf2):
                        refresh = function(number)
                        possible.append(self._reference.state())
                        rows += _changed(possible[-2], possible[-1])
                        done = writer.call(
                            "refresh", name=refresh.name, statements=refresh.statements
                        )
                        seconds.append(done["seconds"])
                        commits.append(done["commit_s"])
                        found = f"{len(checks.states)} snapshots, {len(checks.torn)} torn"
                        progress.update(task, advance=1, found=found)
            ended = time.monotonic()
        self._claims.hold(
            "every snapshot is whole: no order without lineitems, no lineitem without its order",
            not checks.torn,
        )
        self._claims.hold(
            "every snapshot is the state after some transaction, and none goes back",
            in_order(checks.states, possible),
        )
        self._claims.hold(
            "a snapshot taken after the last COMMIT sees it", checks.states[-1] == possible[-1]
        )
        self._fact(
            "refresh functions",
            f"{len(seconds)} transactions over 2 tables, {rows:,} rows"
            f" in {ended - began:.1f} s (median {statistics.median(seconds):.2f} s,"
            f" its COMMIT {1000 * statistics.median(commits):.0f} ms)",
        )
        self._fact(
            "with Lakestep",
            f"{len(checks.torn)} torn states in {len(checks.states)} snapshots of"
            f" {len(set(checks.states))} different states",
        )

    def _kill(self, writer: Driver, checks: Checks) -> None:
        """Kill a driver between the publishes of the two tables; the next client finishes."""
        self._say("Killing a driver between the publishes of its two tables")
        before = {table: newest_version(self._tables, table) for table in tpch.TABLES}
        refresh = self._reference.rf1(self._pairs + 1)
        with writer.halts("published:1") as halts:
            halts.during(writer.start("refresh", name=refresh.name, statements=refresh.statements))
            halted = halts.reached() is not None
            writer.kill()
        killed = time.monotonic()
        half = [
            table for table in tpch.TABLES if newest_version(self._tables, table) > before[table]
        ]
        self._claims.hold("the kill hit between the two publishes", halted and len(half) == 1)
        alone = tpch.PlainReader(self._tables).orders_without_lineitems()

        usual = statistics.median(checks.begin_s)
        recovering = time.monotonic()
        state = checks.one()
        begin_s = checks.begin_s[-1]
        self._claims.hold(
            "the next client's snapshot holds the whole transaction of the killed driver",
            state == self._reference.state() and not checks.torn,
        )
        self._claims.hold(
            "recovery published the other table, once",
            all(newest_version(self._tables, t) == before[t] + 1 for t in tpch.TABLES),
        )
        self._fact(
            "driver killed (SIGKILL)",
            f"{' and '.join(half)} published, the other table not;"
            f" DuckDB, without transactions, saw {alone} orders without lineitems",
        )
        self._fact(
            "recovery",
            f"{begin_s:.2f} s, by the next client's BEGIN (usually {usual:.2f} s);"
            f" whole {recovering + begin_s - killed:.2f} s after the kill",
        )

    def _compare(self, checker: Driver, untouched: list[list[str]]) -> None:
        """Compare with DuckDB on the generated files with the same refreshes applied."""
        self._say("Comparing Q1 and Q4 with DuckDB")
        open_transactions = checker.call("sql", statement="SHOW TRANSACTIONS")
        self._claims.hold("no transaction is left unfinished", not open_transactions)
        plain_reader = tpch.PlainReader(self._tables)
        answers = []
        for name, query in (("Q1", tpch.Q1), ("Q4", tpch.Q4)):
            expected = self._reference.answer(query)
            ours = tpch.same(checker.call("sql", statement=query), expected)
            plain = tpch.same(plain_reader.answer(query), expected)
            self._claims.hold(f"{name} by Spark equals DuckDB's on the generated files", ours)
            self._claims.hold(f"{name} by DuckDB on the Delta tables equals it too", plain)
            answers.append(f"{name} {'equal' if ours and plain else 'DIFFERS'}")
        self._claims.hold(
            "the refreshes changed Q1", not tpch.same(untouched, self._reference.answer(tpch.Q1))
        )
        state = self._reference.state()
        self._fact(
            "against DuckDB",
            f"{', '.join(answers)} ({state.orders:,} orders, {state.lineitems:,} lineitems)",
        )

    def _end(self) -> bool:
        self._fact("total", f"{time.monotonic() - self._began:.0f} s")
        table = Table(show_header=False, box=None, padding=(0, 2, 0, 0))
        for name, value in self._report:
            table.add_row(name, value)
        self._console.print()
        self._console.print(table)
        if self._claims.failed:
            self._console.print(f"[bold red]{len(self._claims.failed)} claims do not hold[/]")
            return False
        self._console.print("[bold green]Everything claimed was so.[/]")
        return True

    def _fact(self, name: str, value: str) -> None:
        self._report.append((name, value))

    def _say(self, step: str) -> None:
        self._console.print(f"[dim]{time.monotonic() - self._began:5.1f} s[/]  {step}")

    def _progress(self) -> Progress:
        return Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("{task.fields[found]}"),
            console=self._console,
        )


def _changed(before: tpch.State, after: tpch.State) -> int:
    return abs(after.orders - before.orders) + abs(after.lineitems - before.lineitems)


def main() -> int:
    """Run the demo; 0 if everything claimed was so."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=REPOSITORY / ".data")
    parser.add_argument("--pairs", type=int, default=10)
    options = parser.parse_args()
    # Ended by a signal, the drivers are ended too.
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    # Without a terminal there is no width to obey.
    console = Console(highlight=False, width=None if sys.stdout.isatty() else 120)
    return 0 if Demo(console, options.data.absolute(), options.pairs).run() else 1


if __name__ == "__main__":
    sys.exit(main())
