"""Medians, and ratios of medians with an interval, of what took turns in one run."""

from __future__ import annotations

import random
import statistics
from collections.abc import Sequence
from typing import Any


def ratio(
    ours: Sequence[float], theirs: Sequence[float], seed: int, forks: int = 1
) -> dict[str, object]:
    """Return the ratio of the medians of paired rounds, and its bootstrap 95 % interval.

    Rounds come from so many pairs of drivers, one after the other. Each pair has its own ratio, as
    its rounds are as fast as its two JVMs; of several the geometric mean counts. Whole pairs are
    resampled first, then the rounds of each: two JVMs that run the same differ more than two rounds
    of one.
    """
    each = len(ours) // forks

    def of(pair: int, rounds: Sequence[int]) -> float:
        mine, plain = ([taken[pair * each + i] for i in rounds] for taken in (ours, theirs))
        return statistics.median(mine) / statistics.median(plain)

    chance = random.Random(seed)

    def draw() -> float:
        pairs = chance.choices(range(forks), k=forks)
        return statistics.geometric_mean(
            of(pair, chance.choices(range(each), k=each)) for pair in pairs
        )

    draws = sorted(draw() for _ in range(10_000))
    whole = statistics.geometric_mean(of(pair, range(each)) for pair in range(forks))
    return {"ratio": whole, "ratio_95": (draws[250], draws[9749])}


def told(found: dict[str, Any]) -> str:
    """Return a ratio and its interval as text."""
    low, high = found["ratio_95"]
    return f"{found['ratio']:.2f} ({low:.2f} to {high:.2f})"
