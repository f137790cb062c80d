"""Medians, and ratios of medians with an interval, of what took turns in one run."""

from __future__ import annotations

import random
import statistics
from collections.abc import Callable, Sequence


def interval(
    ratio: Callable[[list[int]], float], size: int, seed: int, forks: int = 1
) -> tuple[float, float]:
    """Return the bootstrap 95 % interval of a ratio over resampled rounds.

    Rounds come from so many pairs of drivers, one after the other, which are resampled first: two
    JVMs that run the same differ more than two rounds of one.
    """
    chance = random.Random(seed)
    each = size // forks

    def draw() -> list[int]:
        pairs = chance.choices(range(forks), k=forks)
        return [p * each + i for p in pairs for i in chance.choices(range(each), k=each)]

    draws = sorted(ratio(draw()) for _ in range(10_000))
    return draws[250], draws[9749]


def ratio(
    ours: Sequence[float], theirs: Sequence[float], seed: int, forks: int = 1
) -> dict[str, object]:
    """Return the ratio of the medians of paired rounds, and its interval."""

    def of(rounds: Sequence[int]) -> float:
        return statistics.median(ours[i] for i in rounds) / statistics.median(
            theirs[i] for i in rounds
        )

    size = len(ours)
    return {"ratio": of(range(size)), "ratio_95": interval(of, size, seed, forks)}


def told(found: dict[str, object]) -> str:
    """Return a ratio and its interval as text."""
    low, high = found["ratio_95"]  # type: ignore[misc]
    return f"{found['ratio']:.2f} ({low:.2f} to {high:.2f})"
