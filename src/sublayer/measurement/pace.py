"""Pace: how fast a device usually is, and how noisy one reading is.

A reading taken while the reference load ran slowly is scaled to the usual pace, though not fully: the reference load is
noisy, too. The share to correct is fitted to models that were measured twice.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np

from sublayer.measurement.clock import median
from sublayer.measurement.reading import Reading

BELIEF = 0.5
"""Share of the reference's slowdown that times have, before there is evidence."""
FEW = 20
"""Number of pairs that weigh as much as that prior."""


@dataclass(frozen=True)
class Pace:
    reference: float
    """Its usual seconds."""
    share: float
    """Share of the reference's slowdown, in logarithms, that times have."""
    noise: float
    """Standard deviation of a time measured twice, in logarithms."""

    @classmethod
    def of(cls, readings: Collection[Sequence[Reading]]) -> Pace:
        usual = median([one.pace for each in readings for one in each]) if readings else 1.0
        pairs = [each[:2] for each in readings if len(each) > 1]
        time = np.array([math.log(b.latency / a.latency) for a, b in pairs])
        pace = np.array([math.log(b.pace / a.pace) for a, b in pairs])
        weight = FEW * 0.01  # of a prior: pairs whose paces differ by a tenth
        share = min(1.0, max(0.0, float((pace @ time + BELIEF * weight) / (pace @ pace + weight)))) if pairs else BELIEF
        rest = time - share * pace
        # Two readings differ by √2 deviations of one, and their mean has 1/√2 of it.
        noise = float(np.median(np.abs(rest)) / 0.6745 / 2) if pairs else 0.0
        return cls(usual, share, noise)

    def usual(self, readings: Sequence[Reading]) -> float:
        """The time of a model in seconds, as if the device had been at its usual pace."""
        times = [math.log(one.latency) - self.share * math.log(one.pace / self.reference) for one in readings]
        return math.exp(sum(times) / len(times))
