"""Pace: how fast a device is on the whole, and how far one reading can be trusted.

A reading taken while the yardstick ran slow is brought back to the usual pace, though not by all of it: the yardstick
wavers by itself. How much of it shows in the times is fitted to what was read twice.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np

from sublayer.measurement.clock import median
from sublayer.measurement.reading import Reading

BELIEF = 0.5
"""Share of the yardstick's pace in the times, before there is evidence."""
FEW = 20
"""Pairs that outweigh it."""


@dataclass(frozen=True)
class Pace:
    yardstick: float
    """Seconds, usually."""
    share: float
    """Of the yardstick's going slow or fast, in logarithms, that times have, too."""
    wavering: float
    """Deviation of a time that was read twice, in logarithms."""

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
        wavering = float(np.median(np.abs(rest)) / 0.6745 / 2) if pairs else 0.0
        return cls(usual, share, wavering)

    def usual(self, readings: Sequence[Reading]) -> float:
        """The time of a model in seconds, as if the device had been at its usual pace."""
        times = [math.log(one.latency) - self.share * math.log(one.pace / self.yardstick) for one in readings]
        return math.exp(sum(times) / len(times))
