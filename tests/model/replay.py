"""Replays traces of the real protocol code, from the simulation, against its model.

A trace is a line of JSON that ``io.lakestep.simulation.WriteTraces`` writes: the files that the
clients of one history put, in their order. TLC takes the model's own steps along each; where none
fits, the trace is rejected.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

import check
from built import TEST_JAR

# TLC reads a batch as the text of one module.
BATCH = 100


@dataclass(frozen=True)
class Rejected:
    """A history in which an event is no step of the model, and how many events were left then."""

    seed: int
    left: int
    kind: str


@dataclass(frozen=True)
class Replay:
    """What became of a number of traces."""

    traces: int
    events: int
    rejected: tuple[Rejected, ...]
    violated: tuple[str, ...]


def traces(
    file: Path,
    jars: list[Path],
    first_seed: int,
    count: int,
    fault: str = "",
    without: Path | None = None,
) -> Path:
    """Lets the simulation write traces into a file.

    Of a planted fault they are of histories that broke an invariant; those of the same seeds
    ``without`` the fault go into a file of their own.
    """
    classpath = os.pathsep.join(map(str, [TEST_JAR, *jars]))
    command = ["java", "-Xmx1g", "-cp", classpath, "io.lakestep.simulation.WriteTraces"]
    arguments = [str(file), str(first_seed), str(count), *([fault, str(without)] if fault else [])]
    subprocess.run([*command, *arguments], check=True)
    return file


def replay(file: Path, folder: Path, guarantees: tuple[str, ...] = ()) -> Replay:
    """Replays every trace of a file; the guarantees are checked in every state."""
    lines = file.read_text().splitlines()
    results = [
        _batch([json.loads(x) for x in lines[i : i + BATCH]], folder / str(i), guarantees)
        for i in range(0, len(lines), BATCH)
    ]
    return Replay(
        len(lines),
        sum(r.events for r in results),
        tuple(x for r in results for x in r.rejected),
        tuple(x for r in results for x in r.violated),
    )


def _batch(histories: list[dict], folder: Path, guarantees: tuple[str, ...]) -> Replay:
    constants: dict[str, object] = {"Off": set(), "Histories": [_history(h) for h in histories]}
    invariants = "INVARIANTS\n" + "\n".join(guarantees) if guarantees else ""
    check.write(folder, "Run", "Traces", constants, f"INIT Init\nNEXT Next\n{invariants}")
    output, _ = check.tlc(folder, "Run", long=False)
    if "Finished in" not in output:
        raise RuntimeError(f"TLC failed on the traces in {folder}:\n{output[-4000:]}")
    violated = re.findall(r"Invariant (\w+) is violated", output)
    if not violated and "No error has been found" not in output:
        raise RuntimeError(f"TLC failed on the traces in {folder}:\n{output[-4000:]}")
    rejected = re.findall(r'<<"rejected", (\d+), (\d+), "([\w ]+)">>', output)
    return Replay(
        len(histories),
        sum(len(h["events"]) for h in histories),
        tuple(sorted({Rejected(int(s), int(e), k) for s, e, k in rejected}, key=lambda r: r.seed)),
        tuple(violated),
    )


def _history(history: dict) -> dict[str, object]:
    return {
        "seed": history["seed"],
        "tables": set(history["tables"]),
        "shapes": [{k: set(v) for k, v in t.items()} for t in history["transactions"]],
        "events": [
            {k: _set(v) if isinstance(v, list) else v for k, v in e.items()}
            for e in history["events"]
        ],
    }


def _set(values: list) -> set:
    return {tuple(v) if isinstance(v, list) else v for v in values}
