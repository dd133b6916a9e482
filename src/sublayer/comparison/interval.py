"""How sure a mean over a few seeds is.

Intervals are Student's: mean ± t·s/√n with n − 1 degrees of freedom, at 95 %. Variants that share their seeds are
compared by the interval of their differences, seed by seed, which leaves out what the seeds have in common. Each
verdict stands alone: among twenty on variants that are alike, one will be wrong.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from statistics import fmean, stdev
from typing import Any

SURE = 0.95


@dataclass(frozen=True)
class Interval:
    mean: float
    low: float | None
    high: float | None
    """None: of a single value, nothing is known but itself."""

    @classmethod
    def of(cls, values: Sequence[float]) -> Interval | None:
        """None where there is no value."""
        n = len(values)
        if n < 2:
            return cls(values[0], None, None) if n else None
        mean, half = fmean(values), student(n - 1) * stdev(values) / math.sqrt(n)
        return cls(mean, mean - half, mean + half)

    @property
    def half(self) -> float | None:
        return None if self.high is None else self.high - self.mean

    def map(self, function: Callable[[float], float]) -> Interval:
        """In another unit; of a function that rises."""
        low, high = (None if end is None else function(end) for end in (self.low, self.high))
        return Interval(function(self.mean), low, high)

    def dump(self) -> dict[str, Any]:
        return asdict(self)


def verdict(difference: Interval | None) -> str:
    """On losses less those of another: in plain words."""
    if difference is None:
        return "nothing to compare"
    if difference.low is None or difference.high is None:
        return "one seed, no verdict"
    if difference.high < 0:
        return "better"
    return "worse" if difference.low > 0 else "no difference seen"


def student(freedom: int, share: float = SURE) -> float:
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
