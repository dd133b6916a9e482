"""Predictor: the latency and memory of a model on this device, from those of its sublayers.

    latency  ≈ c · (frame + Σ sublayers)      c = exp(a + b·ln weights + d·ln sublayers), fitted to whole models
    memory   =  weights + Σ state + the highest point of the pass, sublayer by sublayer

Weights of small models stay in the caches, those of large ones do not; deep models make more calls. Both effects are
smooth, so three numbers correct them, fitted in logarithms to at most thirty whole models.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from sublayer.measurement.quiet import OnWait
from sublayer.measurement.reading import Reading
from sublayer.measurement.setting import Setting
from sublayer.measurement.specimen import Kind, Specimens
from sublayer.measurement.table import Entry, GridPoint, OnProgress, Table
from sublayer.nn.config import ConfigError
from sublayer.nn.model import Model

MOST = 30
"""Largest number of whole models to calibrate on."""
RIDGE = 0.05
"""Ridge penalty on the slopes of the correction."""


@dataclass(frozen=True)
class Estimate:
    latency: float
    """Seconds."""
    memory: int
    """Bytes: weights, state and activations at their peak."""


@dataclass(frozen=True)
class Errors:
    """Predictions and measurements of models that the predictor was not fitted to."""

    predicted: list[float]
    measured: list[float]
    predicted_memory: list[int]
    measured_memory: list[int]

    @property
    def median(self) -> float:
        """Median relative error of the latency."""
        return float(np.median(self.each))

    @property
    def each(self) -> list[float]:
        return [abs(p / m - 1) for p, m in zip(self.predicted, self.measured, strict=True)]

    @property
    def memory(self) -> float:
        """Median relative error of the memory."""
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
    """Sublayers it does not know are measured, so the first predictions take a while; `learn` does that ahead."""

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
        self._calibrated: list[Model.Config] = []

    def learn(self, configs: Sequence[Model.Config], on_progress: OnProgress = lambda done, total: None) -> None:
        """Measure the sublayers of these models, and the models without sublayers."""
        self.table.learn(self._points(configs), on_progress)

    def knows(self, configs: Sequence[Model.Config]) -> bool:
        """Whether all their sublayers were measured, undisturbed."""
        return self.table.knows(self._points(configs))

    def predict(self, config: Model.Config) -> Estimate:
        time, features, memory = self._raw(config)
        return Estimate(time * math.exp(float(features @ self.coefficients)), memory)

    def calibrate(self, configs: Sequence[Model.Config], on_progress: OnProgress = lambda done, total: None) -> None:
        """Fit the correction to whole models like those to be predicted."""
        if len(configs) > MOST:
            raise ValueError(f"{len(configs)} models to calibrate on; give at most {MOST}")
        self._calibrated = list(configs)
        rows = [self._raw(config) for config in configs]
        readings = self._whole(configs, on_progress)
        found = [math.log(one.latency / raw) for one, (raw, _, _) in zip(readings, rows, strict=True)]
        x = np.array([features for _, features, _ in rows])
        # The constant is not penalised, the slopes are.
        penalty = RIDGE * len(rows) * np.diag([0.0, 1.0, 1.0])
        centred = x - np.array([0.0, *x[:, 1:].mean(0)])
        slopes = np.linalg.solve(centred.T @ centred + penalty, centred.T @ np.array(found))
        slopes[0] -= x[:, 1:].mean(0) @ slopes[1:]
        self.coefficients = slopes

    def relearn(self, on_progress: OnProgress = lambda done, total: None) -> None:
        """Measure again what was disturbed, if nothing disturbs now; predictions change accordingly."""
        self.table.relearn(on_progress)
        if self._calibrated:
            self.calibrate(self._calibrated)

    @property
    def disturbed(self) -> str | None:
        """What disturbed the readings that predictions are made from; None if nothing did."""
        return self.table.disturbed

    def check(self, configs: Sequence[Model.Config], on_progress: OnProgress = lambda done, total: None) -> Errors:
        """Predict and measure models; they should not be those it was calibrated on."""
        estimates = [self.predict(config) for config in configs]
        readings = self._whole(configs, on_progress)
        return Errors(
            [one.latency for one in estimates],
            [one.latency for one in readings],
            [one.memory for one in estimates],
            [one.memory for one in readings],
        )

    def read(self, config: Model.Config) -> Reading:
        """A whole model, measured and stored in the table."""
        return self.table.whole(config, self.setting.remembered(config))

    def await_quiet(self, seconds: float, on_wait: OnWait = lambda why: None) -> str | None:
        """Wait until nobody disturbs, for at most so many seconds; what still disturbs then."""
        return self.table.machine.wait(seconds, self.setting.threads or 1, on_wait)

    def forget(self) -> int:
        """Drop the readings stored for this device and setting; their number."""
        return self.table.forget()

    def _whole(self, configs: Sequence[Model.Config], on_progress: OnProgress) -> list[Reading]:
        readings = []
        for n, config in enumerate(configs):
            on_progress(n, len(configs))
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
        """Seconds before the correction, the features of the correction, and bytes."""
        frame, *sublayers = (self.table.entry(*kind) for kind in self._kinds(config))
        weights = 4 * config.cost().params
        time = frame.latency + sum(entry.latency for entry in sublayers)
        features = np.array([1.0, math.log(weights), math.log(len(sublayers))])
        return time, features, weights + int(_highest(frame, sublayers))

    def _points(self, configs: Sequence[Model.Config]) -> list[GridPoint]:
        return [point for config in configs for kind in self._kinds(config) for point, _ in self.table.points(*kind)]

    def _kinds(self, config: Model.Config) -> list[tuple[Kind, int, int | None, int]]:
        """The entries to look up: the frame, then each sublayer."""
        if len(config.stacks) != 1:
            raise ConfigError(f"{config.tag}: only models with one stack are predicted; measure this one whole")
        self.setting.check(config)
        specimens, memory = Specimens(config), self.setting.remembered(config)
        sublayers = [specimens.sublayer(part) for part in config.stacks[""].parts]
        return [(kind, config.dim, inner, memory) for kind, inner in [(specimens.frame, None), *sublayers]]


def _highest(frame: Entry, sublayers: list[Entry]) -> float:
    """State before the pass, and the peak of what the pass adds to it."""
    there, highest = 0.0, 0.0
    for entry in sublayers:
        highest = max(highest, there + entry.kept + entry.passing)
        there += entry.kept
    highest = max(highest, there + frame.kept + frame.passing)
    return frame.state + sum(entry.state for entry in sublayers) + highest
