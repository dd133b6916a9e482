"""Race: several models timed in turn, so that what slows the machine slows all of them; and their ratios."""

from __future__ import annotations

from dataclasses import asdict, dataclass

import numpy as np

from sublayer.measurement.clock import LEAST
from sublayer.measurement.reading import Reading

DRAWS = 1000
"""Resamplings behind an interval."""


@dataclass(frozen=True)
class Ratio:
    """Of a model's latency to that of the first, with its 95 % interval."""

    value: float
    low: float
    high: float

    def dump(self) -> dict[str, float]:
        return asdict(self)


@dataclass(frozen=True)
class Race:
    """The readings of models that ran in turn."""

    readings: list[Reading]
    """At the quiet pace, in the order of the models."""
    rounds: list[list[float | None]]
    """Seconds of each model in each round; None where it had to wait for a processor."""

    @property
    def ratios(self) -> list[Ratio]:
        """Of each model to the first, from resampled rounds: what all models of a round share cancels."""
        return [self._ratio(n) for n in range(len(self.readings))]

    @property
    def disturbed(self) -> str | None:
        """What disturbed one of the models; None if nothing did."""
        return next((one.disturbed for one in self.readings if one.disturbed), None)

    def _ratio(self, number: int) -> Ratio:
        value = self.readings[number].latency / self.readings[0].latency
        pairs = [(a, b) for a, b in zip(self.rounds[0], self.rounds[number], strict=True) if a and b]
        if number == 0:
            return Ratio(1.0, 1.0, 1.0)
        if len(pairs) < LEAST:  # too few to resample: as wide as two readings taken apart
            first, this = self.readings[0], self.readings[number]
            return Ratio(value, this.low / first.high, this.high / first.low)
        first_R, this_R = np.array(pairs).T
        rounds_XR = np.random.default_rng(0).integers(len(pairs), size=(DRAWS, len(pairs)))
        draws_X = np.median(this_R[rounds_XR], axis=1) / np.median(first_R[rounds_XR], axis=1)
        # In rounds, each model is at its own pace of the moment: the draws give the spread, the readings the value.
        low, high = np.quantile(draws_X, [0.025, 0.975]) / (np.median(this_R) / np.median(first_R))
        return Ratio(value, value * min(float(low), 1.0), value * max(float(high), 1.0))
