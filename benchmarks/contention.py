"""How many transactions a second many clients of one database get through on an object store.

Clients of the protocol, without Spark, in one JVM: each does transactions over two tables, one
after another without a pause. Requests take virtual time, which passes only while all clients wait,
so the figures depend on the seed alone, not on the machine. What statements stage takes no time.
A round is a minute of virtual time, with a seed of its own; in brackets stand the least and the
most of all rounds. other_stores.py lets some of the clients do
the same on a real server.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pages
import pyspark
from driver import TEST_JAR
from rich.progress import track
from s3 import JARS as S3_JARS

import lakestep

CLIENTS = (1, 4, 16, 64)
# How many transactions in a hundred append to a table that all clients share.
SHARED = (0, 10)
SECONDS = 60


def measure(work: Path, rounds: int, seed: int, latency_ms: int) -> dict[str, Any]:
    """Return what became of the transactions, by shared transactions and by clients."""
    found: dict[tuple[int, int], list[dict[str, Any]]] = {}
    runs = (line for n in range(rounds) for line in lines(seed + n, latency_ms))
    total = rounds * len(SHARED) * len(CLIENTS)
    for run in track(runs, "contention", total=total, transient=True):
        found.setdefault((run["shared_percent"], run["clients"]), []).append(run)
    return {
        "latency_ms": latency_ms,
        "runs": [
            {"shared_percent": percent, "clients": clients, **together(runs)}
            for (percent, clients), runs in found.items()
        ],
    }


def lines(
    seed: int,
    latency_ms: int,
    shared: Sequence[int] = SHARED,
    clients: Sequence[int] = CLIENTS,
    where: Sequence[str] = (),
) -> Iterator[dict[str, Any]]:
    """Run the clients; yield what each run prints when it has ended.

    `where` is a folder on a store and settings of Hadoop, where the requests shall be real.
    """
    jars = [str(TEST_JAR), f"{S3_JARS}/*", lakestep.jar_path()]
    jars.append(f"{Path(pyspark.__file__).parent}/jars/*")
    program = ["java", "-Xmx1g", "-cp", os.pathsep.join(jars), "io.lakestep.commit.Contention"]
    lists = [",".join(map(str, values)) for values in (shared, clients)]
    command = [*program, str(seed), str(latency_ms), str(SECONDS), *lists, *where]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as running:
        yield from map(json.loads, running.stdout or ())
    if running.returncode:
        raise subprocess.CalledProcessError(running.returncode, command)


def together(runs: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return what several runs of the same have found."""
    committed = [ms for run in runs for ms in run["commit_ms"]]
    conflicts: Counter[str] = Counter()
    for run in runs:
        conflicts.update(run["conflicts"])
    return {
        "per_second": statistics.mean(run["per_second"] for run in runs),
        "per_second_of_rounds": [run["per_second"] for run in runs],
        "p99_ms_of_rounds": [_spread(run["commit_ms"])[1] for run in runs],
        "tries_a_commit": sum(run["tries"] for run in runs) / len(committed),
        "requests_a_commit": sum(run["requests"] for run in runs) / len(committed),
        "request_ms": statistics.mean(run["request_ms"] for run in runs),
        "begin_ms": _spread([ms for run in runs for ms in run["begin_ms"]]),
        "commit_ms": _spread(committed),
        "transactions": sum(len(run["begin_ms"]) for run in runs),
        "conflicts": dict(conflicts),
    }


def _spread(taken: Sequence[int]) -> list[float]:
    """Return the median, the 99th percentile and the maximum."""
    hundredths = statistics.quantiles(taken, n=100, method="inclusive")
    return [statistics.median(taken), hundredths[98], max(taken)]


def _seconds(ms: float) -> str:
    return f"{ms / 1000:.2f} s"


def _range(values: Sequence[float], digits: str) -> str:
    return f"({min(values):{digits}} to {max(values):{digits}})"


def page(found: dict[str, Any]) -> str:
    """Return the results as Markdown."""
    heads = ["on a shared table", "clients", "commits a second", "tries a commit"]
    heads += ["requests a commit", "BEGIN: median", "COMMIT: median", "99 %", "longest"]
    rows = []
    for run in found["runs"]:
        seconds = [ms / 1000 for ms in run["p99_ms_of_rounds"]]
        row = [
            f"{run['shared_percent']} %",
            str(run["clients"]),
            f"{run['per_second']:.1f} {_range(run['per_second_of_rounds'], '.1f')}",
            f"{run['tries_a_commit']:.1f}",
            f"{run['requests_a_commit']:.0f}",
            *(_seconds(ms) for ms in (run["begin_ms"][0], run["commit_ms"][0])),
            f"{_seconds(run['commit_ms'][1])} {_range(seconds, '.2f')}",
            _seconds(run["commit_ms"][2]),
            f"{sum(run['conflicts'].values())} of {run['transactions']}",
        ]
        rows.append(row)
    took = f"Each request takes {found['latency_ms']} ms."
    return f"{took}\n\n{pages.table([*heads, 'conflicts'], rows)}"


if __name__ == "__main__":
    pages.answer(
        "contention",
        __doc__,
        measure,
        page,
        rounds=3,
        quick_rounds=1,
        numbers={"latency_ms": 30},
    )
