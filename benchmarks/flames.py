"""Flame graphs of COMMIT and of a table's first touch: what their threads do, and wait for.

async-profiler looks at each thread of a driver twice a millisecond, whether it runs or waits. What
it saw below COMMIT, on the caller's thread or on one that works for it, makes `flames-commit.svg`;
what it saw below the first touch of a table makes `flames-touch.svg`. Left out are a caller that
waits for those that work for it, and Delta's checkpoints, which every tenth COMMIT writes.
"""

from __future__ import annotations

import argparse
import os
import re
import select
import shutil
from collections import Counter
from pathlib import Path

import matplotlib as mpl
import pages
from driver import BUILT, Driver
from growth import tables, transaction
from matplotlib import pyplot
from rich.console import Console
from rich.progress import track

REPOSITORY = Path(__file__).resolve().parent.parent
GRAPHS = {
    "commit": (
        "COMMIT",
        (
            "io/lakestep/transaction/Lifecycle$.commit",
            "io/lakestep/commit/PublishExecutor",
        ),
    ),
    "touch": ("First touch", ("io/lakestep/transaction/MetTables.touch",)),
}
# Frames that only pass a call on.
HIDDEN = ("scala/", "java/util/concurrent", "java/lang/reflect", "jdk/internal", "java/lang/Thread")
WRAPPER = re.compile(r"\$\$Lambda|\$anonfun|record(Delta)?Operation|recordFrameProfile|explained")
LEFT_OUT = (
    "java/util/concurrent/CompletableFuture.join",
    "org/apache/spark/sql/delta/lakestep/DeltaHousekeeping$.checkpoint",
)

INTERVAL_MS = 0.5

Stack = tuple[str, ...]


def record(work: Path, transactions: int) -> Path:
    """Run transactions of two tables in a driver, and return what its profiler saw."""
    recording = work / "driver.collapsed"
    [profiler] = (BUILT / "profiler-jars").glob("*.jar")
    interval = f"{1000 * INTERVAL_MS:.0f}us"
    start = f"start,event=wall,interval={interval},collapsed,file={recording}"
    options = f"-javaagent:{profiler}={start}"
    settings = {"spark.driver.extraJavaOptions": options}
    with Driver("flames", work, root=work / "timeline", settings=settings) as driver:
        jvm = os.pidfd_open(driver.call("ready"))
        names = tables(driver, work / "tables", 2)
        for _ in track(range(transactions), "transactions", transient=True):
            driver.call("timed", statements=transaction(names))
    # The profiler writes when the JVM ends, which is after the driver.
    select.select([jvm], [], [])
    return recording


def below(recording: Path, roots: tuple[str, ...]) -> Counter[Stack]:
    """Count the stacks below the first of these methods, without frames that pass calls on."""
    counts: Counter[Stack] = Counter()
    with recording.open() as lines:
        for line in lines:
            text, count = line.rsplit(" ", 1)
            stack = text.split(";")
            start = next((i for i, name in enumerate(stack) if name.startswith(roots)), None)
            if start is None or any(name.startswith(LEFT_OUT) for name in stack):
                continue
            shown = (n for n in stack[start + 1 :] if not n.startswith(HIDDEN))
            names = (n.replace("/", ".") for n in shown if not WRAPPER.search(n))
            counts[tuple(names)] += int(count)
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
            if width < whole / 400:
                left += width
                continue
            color = "tab:orange" if name.startswith("io.lakestep") else "lightgrey"
            axes.barh(level, width, 0.95, left, color=color, edgecolor="white", linewidth=0.3)
            label = ".".join(name.split(".")[-2:])
            letters = int(width / whole * 190)
            if letters > 4:
                axes.text(left, level, label[:letters], fontsize=5, va="center", parse_math=False)
            if level < depth:
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
    parser.add_argument("--transactions", type=int, default=200)
    options = parser.parse_args()
    work = options.data.absolute() / "flames"
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    recording = record(work, options.transactions)
    console = Console(highlight=False)
    for name, (title, roots) in GRAPHS.items():
        counts = below(recording, roots)
        if not counts:
            message = f"No sample has any of {', '.join(roots)}"
            raise SystemExit(message)
        draw(counts, title, pages.FOLDER / f"flames-{name}.svg")
        seen: Counter[str] = Counter()
        for stack, count in counts.items():
            seen.update(dict.fromkeys(stack, count))
        whole = sum(counts.values())
        ms = whole * INTERVAL_MS / options.transactions
        console.print(f"{title}: {whole} samples, {ms:.1f} ms of all threads a transaction")
        for method, count in seen.most_common(40):
            console.print(f"{100 * count / whole:5.1f} % {method}")


if __name__ == "__main__":
    main()
