"""Timing: the median of as many repeats as its spread requires, each next to a reference load."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass

LEAST = 5
"""Least number of repeats."""
WARM_UP = 3
BESIDE = 0.1
"""Time for the reference load, as a share of a run's: next to a long run, a single one would be too noisy."""


@dataclass(frozen=True)
class Timing:
    """In seconds: the median and its 95 % confidence interval."""

    median: float
    low: float
    high: float
    repeats: int
    pace: float
    """Median seconds of the reference load next to it."""


def timed(
    run: Callable[[], object],
    reference: Callable[[], object],
    prepare: Callable[[], object] = lambda: None,
    *,
    tolerance: float = 0.02,
    seconds: float = 2.0,
    now: Callable[[], float] = time.perf_counter,
) -> Timing:
    """Run until the median is known to within `tolerance`, or for `seconds`; at least LEAST times."""

    def once(work: Callable[[], object]) -> float:
        start = now()
        work()
        return now() - start

    long = short = 0.0
    for _ in range(WARM_UP):
        prepare()
        long, short = once(run), once(reference)
    beside = max(1, round(BESIDE * long / short) if short else 1)
    took, paces = [], [once(reference)]
    begun = now()
    while len(took) < LEAST or (spread(took) > tolerance and now() - begun < seconds):
        prepare()
        took.append(once(run))
        paces += [once(reference) for _ in range(beside)]
    return Timing(median(took), *interval(took), len(took), median(paces))


def median(values: list[float]) -> float:
    there, half = sorted(values), len(values) // 2
    return there[half] if len(there) % 2 else (there[half - 1] + there[half]) / 2


def interval(values: list[float]) -> tuple[float, float]:
    """95 % interval of the median, by order statistics, for any distribution."""
    there, n = sorted(values), len(values)
    below = max(0, math.floor((n - 1 - 1.96 * math.sqrt(n)) / 2))  # conservative where repeats are few
    return there[below], there[n - 1 - below]


def spread(values: list[float]) -> float:
    """Half the interval, as a share of the median."""
    low, high = interval(values)
    return (high - low) / 2 / median(values)
