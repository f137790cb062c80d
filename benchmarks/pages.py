"""Where results are kept: `results.json`, and the tables in README.md beside it."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
from collections.abc import Callable, Mapping
from datetime import datetime, timezone
from importlib.metadata import version
from pathlib import Path
from typing import Any

from rich.console import Console

FOLDER = Path(__file__).resolve().parent
RESULTS = FOLDER / "results.json"
README = FOLDER / "README.md"


def known() -> dict[str, Any]:
    """Return all results that are kept."""
    results: dict[str, Any] = json.loads(RESULTS.read_text("utf-8"))
    return results


def code() -> str:
    """Return the commit that runs, `-dirty` where a source differs from it."""

    def git(*command: str) -> str:
        whole = ["git", "-C", str(FOLDER.parent), *command]
        return subprocess.run(whole, check=False, capture_output=True, text=True).stdout.strip()

    sources = ("scala", "python", "sql-grammar", "benchmarks/*.py")
    dirty = "-dirty" if git("status", "--porcelain", "--", *sources) else ""
    return (git("rev-parse", "--short", "HEAD") or "unknown") + dirty


def circumstances() -> dict[str, Any]:
    """Return when a run begins, at what load, of which code, and on which versions."""
    today = datetime.now(timezone.utc).date().isoformat()
    versions = {package: version(package) for package in ("lakestep", "pyspark", "delta-spark")}
    return {"date": today, "load": os.getloadavg()[0], "code": code(), "versions": versions}


def run_of(on: dict[str, Any]) -> str:
    """Return the circumstances of a run in words."""
    versions = ", ".join(f"{package} {number}" for package, number in on["versions"].items())
    return f"Run of {on['date']}, load {on['load']:.1f} at its begin, {versions}."


def keep(script: str, results: dict[str, Any], page: str) -> None:
    """Keep what a script found beside the rest, and put its tables between its marks."""
    whole = known() | results
    RESULTS.write_text(json.dumps(whole, indent=1, ensure_ascii=False) + "\n", "utf-8")
    put(README, script, page)


def put(file: Path, script: str, text: str, part: str = "") -> None:
    """Put what a script wrote between its marks in a file, or those of a part of it."""
    name = f"{script}, {part}" if part else script
    begin, end = f"<!-- {name}: written by {script}.py -->", f"<!-- end of {name} -->"
    before, rest = file.read_text("utf-8").split(begin)
    after = rest.split(end)[1]
    file.write_text(f"{before}{begin}\n\n{text}\n\n{end}{after}", "utf-8")


def answer(
    script: str,
    question: str | None,
    measure: Callable[..., dict[str, Any]],
    page: Callable[[dict[str, Any]], str],
    *,
    rounds: int,
    quick_rounds: int,
    numbers: Mapping[str, int] | None = None,
) -> None:
    """Measure in a folder, by rounds and seed; print and keep it. With --quick nothing is kept.

    `numbers` are further options with their defaults, which `measure` gets by name.
    """
    parser = argparse.ArgumentParser(description=question)
    parser.add_argument("--quick", action="store_true", help="few rounds, nothing written")
    parser.add_argument("--data", type=Path, default=FOLDER.parent / ".data")
    parser.add_argument("--seed", type=int, default=1)
    numbers = numbers or {}
    for name, default in numbers.items():
        parser.add_argument(f"--{name.replace('_', '-')}", type=int, default=default)
    options = parser.parse_args()
    work = options.data.absolute() / script
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    on = {**circumstances(), "rounds": quick_rounds if options.quick else rounds}
    more = {name: getattr(options, name) for name in numbers}
    found = on | measure(work, on["rounds"], options.seed, **more)
    whole = f"{run_of(on)} {on['rounds']} rounds.\n\n{page(found)}"
    Console(highlight=False).print(whole, soft_wrap=True)
    if not options.quick:
        keep(script, {script: found}, whole)


def table(heads: list[str], rows: list[list[str]]) -> str:
    """Return a table as Markdown."""
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)
