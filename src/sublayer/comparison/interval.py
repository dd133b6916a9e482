"""How certain a mean over a few seeds is.

Intervals are Student's: mean ± t·s/√n with n − 1 degrees of freedom, at 95 %. Variants that share their seeds are
compared by the interval of their differences, seed by seed, which leaves out what the seeds have in common. Verdicts
are not corrected for their number: of twenty verdicts on variants that are alike, one will be wrong.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from statistics import fmean, stdev

from sublayer.runs.record import Record

CONFIDENCE = 0.95


class Interval(Record):
    mean: float
    low: float | None = None
    high: float | None = None
    """None for a single value: one value has no spread."""

    @classmethod
    def of(cls, values: Sequence[float]) -> Interval | None:
        """None where there is no value."""
        n = len(values)
        if n < 2:
            return cls(mean=values[0]) if n else None
        mean, half = fmean(values), student(n - 1) * stdev(values) / math.sqrt(n)
        return cls(mean=mean, low=mean - half, high=mean + half)

    @property
    def half(self) -> float | None:
        return None if self.high is None else self.high - self.mean

    def map(self, function: Callable[[float], float]) -> Interval:
        """In another unit, by a function that rises."""
        low, high = (None if end is None else function(end) for end in (self.low, self.high))
        return Interval(mean=function(self.mean), low=low, high=high)


class SeedInterval(Interval):
    """With the value of each seed; None where a seed has none."""

    values: list[float | None] = []

    @classmethod
    def by_seed(cls, values: Sequence[float | None]) -> SeedInterval | None:
        """None where no seed has a value."""
        found = Interval.of([value for value in values if value is not None])
        return None if found is None else cls(**dict(found), values=list(values))


def verdict(difference: Interval | None) -> str:
    """On losses less those of another, in words."""
    if difference is None:
        return "nothing to compare"
    if difference.low is None or difference.high is None:
        return "one seed, no verdict"
    if difference.high < 0:
        return "better"
    return "worse" if difference.low > 0 else "no difference seen"


def student(freedom: int, share: float = CONFIDENCE) -> float:
    """t such that |T| < t with probability `share`, for a whole number of degrees of freedom."""
    low, high = 0.0, 1.0
    while within(high, freedom) < share:
        high *= 2
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if within(middle, freedom) < share else (low, middle)
    return high


def within(t: float, freedom: int) -> float:
    """P(|T| < t), by the finite series that a whole number of degrees has (Abramowitz & Stegun, 26.7.3 and 26.7.4)."""
    angle = math.atan(t / math.sqrt(freedom))
    cosine, odd = math.cos(angle), freedom % 2
    term, total = cosine if odd else 1.0, 0.0
    for n in range(1 + odd, freedom, 2):
        total += term
        term *= cosine**2 * n / (n + 1)
    return 2 / math.pi * (angle + math.sin(angle) * total) if odd else math.sin(angle) * total
