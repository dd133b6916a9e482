"""Predictor: any model's time and memory on this device, from what its sublayers take.

    latency  ≈ c · (frame + Σ sublayers)      c = exp(a + b·ln weights + d·ln sublayers), fitted to whole models
    memory   =  weights + Σ state + the highest point of the pass, sublayer by sublayer

Small models keep their weights in the caches and large ones do not, deep ones call more often: what that changes is
smooth in both, so three numbers correct it, fitted in logarithms to at most thirty whole models.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from sublayer.measurement.reading import Reading
from sublayer.measurement.setting import Setting
from sublayer.measurement.specimen import Kind, Specimens
from sublayer.measurement.table import Entry, Table, Told
from sublayer.nn.config import ConfigError
from sublayer.nn.model import Model

MOST = 30
"""Whole models to calibrate on."""
RIDGE = 0.05
"""How much evidence it takes to believe that a correction is more than a constant."""
TOLERANCE, SECONDS = 0.02, 1.0
"""How well a whole model's time is to be known, and for how long that is tried."""


@dataclass(frozen=True)
class Estimate:
    latency: float
    """Seconds."""
    memory: int
    """Bytes: weights, state and activations at their peak."""


@dataclass(frozen=True)
class Errors:
    """Predicted against measured, over models the predictor was not fitted to."""

    predicted: list[float]
    measured: list[float]
    predicted_memory: list[int]
    measured_memory: list[int]

    @property
    def median(self) -> float:
        """Median absolute error of the latency, as a share."""
        return float(np.median(self.each))

    @property
    def each(self) -> list[float]:
        return [abs(p / m - 1) for p, m in zip(self.predicted, self.measured, strict=True)]

    @property
    def memory(self) -> float:
        """Median absolute error of the memory, as a share."""
        pairs = zip(self.predicted_memory, self.measured_memory, strict=True)
        return float(np.median([abs(p / m - 1) for p, m in pairs]))

    @property
    def span(self) -> float:
        """The slowest over the fastest."""
        return max(self.measured) / min(self.measured)

    def dump(self) -> dict[str, Any]:
        figures = {name: getattr(self, name) for name in ("median", "span", "memory")}
        return {"models": len(self.measured), **figures, **vars(self)}


class Predictor:
    """What it has not seen yet it measures, so the first predictions take a while; `learn` does that ahead."""

    def __init__(
        self,
        setting: Setting | None = None,
        *,
        folder: Path | str | None = None,
        plugins: Sequence[str] = (),
    ) -> None:
        self.table = Table(setting or Setting(), folder, plugins)
        self.setting = self.table.setting
        self.coefficients = np.zeros(3)

    def learn(self, configs: Sequence[Model.Config], told: Told = lambda done, total: None) -> None:
        """Measure the sublayers that these models are made of, and what lies around them."""
        rungs = [rung for config in configs for kind in self._kinds(config) for rung, _ in self.table.rungs(*kind)]
        self.table.learn(rungs, told)

    def predict(self, config: Model.Config) -> Estimate:
        time, features, memory = self._raw(config)
        return Estimate(time * math.exp(float(features @ self.coefficients)), memory)

    def calibrate(self, configs: Sequence[Model.Config], told: Told = lambda done, total: None) -> None:
        """Fit the correction to whole models of the kind that will be asked for."""
        if len(configs) > MOST:
            raise ValueError(f"{len(configs)} models to calibrate on; at most {MOST} are meant")
        rows = [self._raw(config) for config in configs]
        readings = self._whole(configs, told)
        found = [math.log(self.table.pace.usual([one]) / raw) for one, (raw, _, _) in zip(readings, rows, strict=True)]
        x = np.array([features for _, features, _ in rows])
        # A constant is free; the slopes have to earn their place.
        penalty = RIDGE * len(rows) * np.diag([0.0, 1.0, 1.0])
        centred = x - np.array([0.0, *x[:, 1:].mean(0)])
        slopes = np.linalg.solve(centred.T @ centred + penalty, centred.T @ np.array(found))
        slopes[0] -= x[:, 1:].mean(0) @ slopes[1:]
        self.coefficients = slopes

    def check(self, configs: Sequence[Model.Config], told: Told = lambda done, total: None) -> Errors:
        """How wrong it is, on models it should not have been calibrated on."""
        estimates = [self.predict(config) for config in configs]
        readings = self._whole(configs, told)
        return Errors(
            [one.latency for one in estimates],
            [self.table.pace.usual([one]) for one in readings],
            [one.memory for one in estimates],
            [one.memory for one in readings],
        )

    def read(self, config: Model.Config) -> Reading:
        """A whole model, measured; kept like the rest."""
        return self.table.whole(config, self.setting.remembered(config), tolerance=TOLERANCE, seconds=SECONDS)

    def _whole(self, configs: Sequence[Model.Config], told: Told) -> list[Reading]:
        readings = []
        for n, config in enumerate(configs):
            told(n, len(configs))
            readings.append(self.read(config))
        return readings

    def close(self) -> None:
        """End the process that measures."""
        self.table.close()

    def __enter__(self) -> Predictor:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _raw(self, config: Model.Config) -> tuple[float, np.ndarray, int]:
        """Seconds before the correction, what the correction is made from, and bytes."""
        frame, *sublayers = (self.table.entry(*kind) for kind in self._kinds(config))
        weights = 4 * config.cost().params
        time = frame.latency + sum(entry.latency for entry in sublayers)
        features = np.array([1.0, math.log(weights), math.log(len(sublayers))])
        return time, features, weights + int(_highest(frame, sublayers))

    def _kinds(self, config: Model.Config) -> list[tuple[Kind, int, int | None, int]]:
        """What the table is asked for: the frame, then each sublayer."""
        if len(config.stacks) != 1:
            raise ConfigError(f"{config.tag}: only models with one stack are predicted; measure this one whole")
        self.setting.check(config)
        specimens, memory = Specimens(config), self.setting.remembered(config)
        sublayers = [specimens.sublayer(part) for part in config.stacks[""].parts]
        return [(kind, config.dim, inner, memory) for kind, inner in [(specimens.frame, None), *sublayers]]


def _highest(frame: Entry, sublayers: list[Entry]) -> float:
    """State before the pass, and the highest point of what the pass adds to it."""
    there, highest = 0.0, 0.0
    for entry in sublayers:
        highest = max(highest, there + entry.kept + entry.passing)
        there += entry.kept
    highest = max(highest, there + frame.kept + frame.passing)
    return frame.state + sum(entry.state for entry in sublayers) + highest
