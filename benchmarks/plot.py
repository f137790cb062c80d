"""Draws the ratios of `results.json` with their intervals, goals and floors, as `ratios.svg`."""

from __future__ import annotations

from typing import Any

import matplotlib as mpl
import pages
from matplotlib import pyplot

OURS = "Lakestep"
PICTURE = pages.FOLDER / "ratios.svg"


def main() -> None:
    """Draw the picture."""
    # The same results give the same file.
    mpl.rcParams["svg.hashsalt"] = "lakestep"
    scenarios: dict[str, Any] = pages.known()["scenarios"]
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


if __name__ == "__main__":
    main()
