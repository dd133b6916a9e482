"""What candidates take on this device: predicted from a table of its sublayers, measured for models of the front."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from random import Random

from sublayer.measurement import Predictor, Setting, measure
from sublayer.nas.records import MeasuredFigures
from sublayer.nas.reporters import SearchReporter
from sublayer.nas.space import Space
from sublayer.nas.stages import CountStage, Stage, WeightStage
from sublayer.nas.trial import Figures
from sublayer.nn.model import Model

log = logging.getLogger("sublayer.nas")

LEARNED, CALIBRATED = 96, 20
"""Candidates drawn before the search: those whose sublayers are measured, and those of them measured whole."""


class LatencyStage(Stage):
    """Latency and memory, predicted. A candidate too large by its parameters alone is never measured."""

    def __init__(self, predictor: Predictor, limits: Mapping[str, float], reporter: SearchReporter) -> None:
        self.predictor, self.limits, self.reporter = predictor, limits, reporter
        self._cheap = [CountStage(), WeightStage()]

    def prepare(self, space: Space) -> None:
        """Measure the sublayers of candidates drawn at random, and calibrate on some of those candidates."""
        rng, count, configs = Random(0), 10 * LEARNED, []
        for n in range(count):
            self.reporter.phase("drawing candidates", n, count)
            if (one := space.candidate(space.sample(rng))) is not None:
                configs.append(one.config)
        first = ([config for config in configs if self.fits(config)] or configs)[:LEARNED]
        self.predictor.learn(first, self._report("measuring sublayers on this device"))
        self.predictor.calibrate(first[:CALIBRATED], self._report("measuring whole models on this device"))

    def look_ahead(self, configs: Sequence[Model.Config]) -> None:
        """Measure the sublayers of a generation that are not in the table yet."""
        fitting = [config for config in configs if self.fits(config)]
        self.predictor.learn(fitting, self._report("measuring sublayers on this device"))

    def figures(self, config: Model.Config) -> Figures:
        estimate = self.predictor.predict(config)
        return {"latency": estimate.latency, "memory": estimate.memory}

    def close(self) -> None:
        self.predictor.close()

    def fits(self, config: Model.Config) -> bool:
        """Whether its counted figures are within the limits."""
        counted = {name: value for stage in self._cheap for name, value in stage.figures(config).items()}
        return all(counted.get(name, 0) <= most for name, most in self.limits.items())

    def _report(self, phase: str) -> Callable[[int, int], None]:
        return lambda done, total: self.reporter.phase(phase, done, total)


class DeviceMeter:
    """Measures whole models, each in a process of its own, for at most `seconds`."""

    def __init__(self, setting: Setting, seconds: float, plugins: Sequence[str], reporter: SearchReporter) -> None:
        self.setting, self.seconds, self.plugins, self.reporter = setting, seconds, plugins, reporter

    def measure(self, config: Model.Config) -> MeasuredFigures:
        self.reporter.activity(f"measuring {next(iter(config.stacks.values())).layout} at {config.dim}")
        reading = measure([config], self.setting, seconds=self.seconds, plugins=self.plugins)[0]
        if reading.noise:
            log.warning("%s", reading.noise)
        return MeasuredFigures(latency=reading.latency, low=reading.low, high=reading.high, memory=reading.memory)
