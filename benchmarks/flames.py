"""Flame graphs of COMMIT and of a table's first touch, from a flight recording of one driver.

A stack is taken every 10 ms of each running thread. Those below COMMIT, on the caller's thread or
on one that publishes for it, make `flames-commit.svg`; those below the first touch of a table make
`flames-touch.svg`.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
from collections import Counter
from pathlib import Path

import matplotlib as mpl
import pages
from driver import Driver
from growth import tables, transaction
from matplotlib import pyplot
from rich.console import Console

REPOSITORY = Path(__file__).resolve().parent.parent
GRAPHS = {
    "commit": (
        "COMMIT",
        (
            "io.lakestep.session.Lifecycle$.commit",
            "io.lakestep.transaction.World.",
            "io.lakestep.transaction.PublishExecutor",
        ),
    ),
    "touch": ("first touch", ("io.lakestep.session.SessionTransaction.touch",)),
}
# Frames that only pass a call on.
HIDDEN = ("scala.", "java.util.concurrent", "java.lang.reflect", "jdk.internal", "java.lang.Thread")

Stack = tuple[str, ...]


def record(work: Path, transactions: int) -> Path:
    """Run transactions of two tables in a driver, and return its recording."""
    recording = work / "driver.jfr"
    options = f"-XX:StartFlightRecording=filename={recording},settings=profile,dumponexit=true"
    settings = {"spark.driver.extraJavaOptions": options}
    with Driver("flames", work, root=work / "timeline", settings=settings) as driver:
        names = tables(driver, work / "tables", 2)
        for _ in range(transactions):
            driver.call("timed", statements=transaction(names))
    return recording


def stacks(recording: Path) -> list[Stack]:
    """Return what each sample was in, outermost first."""
    command = ["jfr", "print", "--json", "--stack-depth", "200"]
    told = subprocess.run(
        [*command, "--events", "jdk.ExecutionSample,jdk.NativeMethodSample", str(recording)],
        check=True,
        capture_output=True,
    )
    found = []
    for event in json.loads(told.stdout)["recording"]["events"]:
        frames = (event["values"].get("stackTrace") or {}).get("frames") or []
        methods = (frame["method"] for frame in reversed(frames))
        found.append(tuple(f"{m['type']['name'].replace('/', '.')}.{m['name']}" for m in methods))
    return found


def below(samples: list[Stack], roots: tuple[str, ...]) -> Counter[Stack]:
    """Count the stacks below the first of these methods, without frames that pass calls on."""
    counts: Counter[Stack] = Counter()
    for stack in samples:
        start = next((i for i, name in enumerate(stack) if name.startswith(roots)), None)
        if start is not None:
            counts[tuple(n for n in stack[start + 1 :] if not n.startswith(HIDDEN))] += 1
    return counts


def draw(counts: Counter[Stack], title: str, picture: Path, depth: int = 28) -> None:
    """Draw the stacks, callers below; a frame is as wide as its share of the samples."""
    mpl.rcParams.update({"svg.hashsalt": "lakestep", "svg.fonttype": "none"})
    whole = sum(counts.values())
    figure, axes = pyplot.subplots(figsize=(14, 8), layout="constrained")

    def frames(stacks: Counter[Stack], left: int, level: int) -> None:
        children: dict[str, Counter[Stack]] = {}
        for stack, count in stacks.items():
            if stack:
                children.setdefault(stack[0], Counter())[stack[1:]] += count
        for name, inner in sorted(children.items()):
            width = sum(inner.values())
            color = "tab:orange" if name.startswith("io.lakestep") else "lightgrey"
            axes.barh(level, width, 0.95, left, color=color, edgecolor="white", linewidth=0.3)
            label = ".".join(name.split(".")[-2:])
            letters = int(width / whole * 190)
            if letters > 4:
                axes.text(left, level, label[:letters], fontsize=5, va="center", parse_math=False)
            if level < depth and width > whole / 400:
                frames(inner, left, level + 1)
            left += width

    frames(counts, 0, 0)
    axes.set_xlim(0, whole)
    axes.set_axis_off()
    axes.set_title(f"{title}: {whole} samples; Lakestep's own methods in orange")
    figure.savefig(picture, metadata={"Date": None})
    pyplot.close(figure)


def main() -> None:
    """Record, and draw both graphs; print where most samples were."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=REPOSITORY / ".data")
    parser.add_argument("--transactions", type=int, default=400)
    options = parser.parse_args()
    work = options.data.absolute() / "flames"
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    samples = stacks(record(work, options.transactions))
    console = Console(highlight=False)
    for name, (title, roots) in GRAPHS.items():
        counts = below(samples, roots)
        draw(counts, title, pages.FOLDER / f"flames-{name}.svg")
        ours: Counter[str] = Counter()
        for stack, count in counts.items():
            ours.update(dict.fromkeys((n for n in stack if n.startswith("io.lakestep")), count))
        console.print(f"{title}: {sum(counts.values())} of {len(samples)} samples")
        for method, count in ours.most_common(25):
            console.print(f"{count:6} {method}")


if __name__ == "__main__":
    main()
