"""Medians, and ratios of medians with an interval, of what took turns in one run."""

from __future__ import annotations

import random
import statistics
from collections.abc import Callable, Sequence


def interval(ratio: Callable[[list[int]], float], size: int, seed: int) -> tuple[float, float]:
    """Return the bootstrap 95 % interval of a ratio over resampled rounds."""
    chance = random.Random(seed)
    draws = sorted(ratio(chance.choices(range(size), k=size)) for _ in range(10_000))
    return draws[250], draws[9749]


def ratio(ours: Sequence[float], theirs: Sequence[float], seed: int) -> dict[str, object]:
    """Return the ratio of the medians of paired rounds, and its interval."""

    def of(rounds: Sequence[int]) -> float:
        return statistics.median(ours[i] for i in rounds) / statistics.median(
            theirs[i] for i in rounds
        )

    size = len(ours)
    return {"ratio": of(range(size)), "ratio_95": interval(of, size, seed)}


def told(found: dict[str, object]) -> str:
    """Return a ratio and its interval as text."""
    low, high = found["ratio_95"]  # type: ignore[misc]
    return f"{found['ratio']:.2f} ({low:.2f} to {high:.2f})"
