"""Draws the ratios of `results.json`; puts all into docs/performance.md, some into README.md."""

from __future__ import annotations

from typing import Any

import matplotlib as mpl
import pages
import pairs
from matplotlib import pyplot

OURS, PLAIN = "Lakestep", "plain Delta"
PICTURE = pages.FOLDER / "ratios.svg"
PRODUCT_PAGE = pages.FOLDER.parent / "README.md"
ALL_FIGURES = pages.FOLDER.parent / "docs" / "performance.md"
ALONE = "in a driver that does nothing else"
COMMAND = "`.venv/bin/python benchmarks/stores.py`"
MANY_FILES = "MERGE of 1 % into 1,000,000 rows in 10,000 files"


def draw(scenarios: dict[str, Any]) -> None:
    """Draw each ratio with its interval, goal and floor."""
    # The same results give the same file.
    mpl.rcParams["svg.hashsalt"] = "lakestep"
    rows = list(reversed(scenarios.items()))
    figure, axes = pyplot.subplots(figsize=(9, 0.6 * len(rows) + 1), layout="constrained")
    for y, (_, scenario) in enumerate(rows):
        found = scenario["kinds"][OURS]
        low, high = found["ratio_95"]
        axes.plot([low, high], [y, y], color="tab:blue", linewidth=5, solid_capstyle="butt")
        axes.plot(found["ratio"], y, "o", color="black")
        axes.plot(scenario["goal"], y, "|", color="tab:green", markersize=18, markeredgewidth=2)
        axes.plot(scenario["floor"], y, "|", color="tab:red", markersize=18, markeredgewidth=2)
    axes.set_yticks(range(len(rows)), [name for name, _ in rows])
    axes.axvline(1, color="grey", linewidth=0.8)
    axes.set_xlabel("time ÷ plain Delta, 95 % interval; green: goal, red: floor")
    figure.savefig(PICTURE, metadata={"Date": None})


def figures(results: dict[str, Any]) -> str:
    """Return the ratios as a table, and what BEGIN, COMMIT and a first touch take, as Markdown."""
    scenarios, growth = results["scenarios"], results["growth"]
    ratios = pages.table(
        ["statements", "÷ plain Delta, with its 95 % interval"],
        [[name, pairs.told(found["kinds"][OURS])] for name, found in scenarios.items()],
    )
    first = next(iter(scenarios.values()))["kinds"][OURS]["statements_median_s"]
    commits, touch = growth["commits"], growth["touches"]
    _, million, tables = map(pairs.told, growth["timelines"].values())
    past = results["past"]
    dates = sorted(
        {found["on"]["date"] for found in scenarios.values()} | {growth["date"], past["date"]}
    )

    def ms(seconds: float) -> str:
        return f"{1000 * seconds:.0f} ms"

    alone, begin, commit = commits["2"], ms(first[0]), ms(first[-1])
    sentences = (
        f"In the first row BEGIN takes {begin} and COMMIT of two tables {commit}; in a driver that",
        f"does nothing else {ms(alone['begin_s'])} and {ms(alone['commit_s'])}, COMMIT of 32",
        f"tables {ms(commits['32']['commit_s'])} and of 200 {ms(commits['200']['commit_s'])}. The",
        f"first touch of a table takes {ms(touch['beyond_s'])} more than plain Delta's. Behind a",
        f"timeline of a million entries BEGIN and COMMIT take {million} times what they",
        f"take behind one of a hundred, behind one of 10,000 tables {tables} times. The first",
        f"query at an earlier version takes {pairs.told(past['local disk'])} times plain Delta's",
        f"time travel. Run on {' and '.join(dates)}.",
    )
    return "\n".join((ratios, "", *sentences))


def four_figures(results: dict[str, Any]) -> str:
    """Return what a reader with two minutes wants to know, as Markdown."""
    scenarios, growth = results["scenarios"], results["growth"]
    first = next(iter(scenarios))
    _, million, _ = map(pairs.told, growth["timelines"].values())
    two, many = (f"{1000 * growth['commits'][n]['commit_s']:.0f} ms" for n in ("2", "200"))

    def ratio(name: str) -> str:
        return pairs.told(scenarios[name]["kinds"][OURS])

    by_overhead, by_growth = "`benchmarks/overhead.py`", "`benchmarks/growth.py`"
    rows = [
        [f"{first}, in a transaction ÷ on plain Delta", ratio(first), by_overhead],
        [f"{MANY_FILES}, in a transaction ÷ on plain Delta", ratio(MANY_FILES), by_overhead],
        [f"COMMIT of 2 tables, of 200 tables, {ALONE}", f"{two}, {many}", by_growth],
        ["BEGIN and COMMIT after 1,000,000 transactions ÷ after 100", million, by_growth],
    ]
    return pages.table(["figure", "median, with its 95 % interval", "script"], rows)


def on_s3(results: dict[str, Any]) -> str:
    """Return what three statements take on S3, in a sentence."""
    name, found = next(iter(results["stores"]["work"].items()))
    ratio = pairs.told(found[OURS])
    return "\n".join(
        (
            "- **The same statements take less time on S3** in a transaction than on plain Delta:",
            f"  {ratio} of it for {name}, where a request takes",
            f"  {results['stores']['latency_ms']} ms ({COMMAND}).",
        )
    )


def figures_on_s3(results: dict[str, Any]) -> str:
    """Return times, ratios and costs on S3, and what many clients get through, as Markdown."""
    stores, contention = results["stores"], results["contention"]
    rows = [
        [
            name,
            *(f"{kinds[kind]['median_s']:.1f} s" for kind in (PLAIN, OURS)),
            pairs.told(kinds[OURS]),
            ", ".join(f"{kinds[kind]['cents']:.0f}" for kind in (PLAIN, OURS)),
        ]
        for name, kinds in stores["work"].items()
        if "ratio" in kinds[OURS]
    ]
    heads = ["statements", "plain Delta", "with Lakestep", "÷ (95 % interval)"]
    heads.append("cents a thousand times: plain Delta, with Lakestep")
    commit = next(iter(stores["work"].values()))[OURS]["statements"][-1]
    runs = {(run["shared_percent"], run["clients"]): run for run in contention["runs"]}
    some, many = (f"{runs[0, clients]['per_second']:.0f}" for clients in (16, 64))
    worst = runs[10, 64]["commit_ms"][1] / 1000
    sentences = (
        "Cents are those of the requests by the list price of S3 Standard in us-east-1; data is",
        f"not in it. COMMIT of the two tables takes {commit['median_s']:.2f} s, with",
        f"{commit['depth']} requests one after another, as one table is updated and the other",
        "appended to.",
        "",
        "Clients that commit to different tables share nothing but the next number of the",
        f"timeline: 16 of them get through {some} commits a second in all, 64 through {many}",
        f"(`benchmarks/contention.py`, virtual time, {contention['latency_ms']} ms a request).",
        "Many that write one table at the same time make some of their COMMITs wait long:",
        f"{worst:.0f} s in the worst hundredth, of 64 clients that write it in every tenth",
        "transaction.",
    )
    took = f"Where a request takes {stores['latency_ms']} ms (moto, stock s3a, {COMMAND};"
    run = f"run of {stores['date']}, that of contention {contention['date']}):"
    return "\n".join((took, run, "", pages.table(heads, rows), "", *sentences))


def main() -> None:
    """Draw the picture and write the figures."""
    results = pages.known()
    draw(results["scenarios"])
    pages.put(ALL_FIGURES, "benchmarks/summary", figures(results))
    pages.put(ALL_FIGURES, "benchmarks/summary", figures_on_s3(results), part="S3")
    pages.put(PRODUCT_PAGE, "benchmarks/summary", four_figures(results))
    pages.put(PRODUCT_PAGE, "benchmarks/summary", on_s3(results), part="S3")


if __name__ == "__main__":
    main()
