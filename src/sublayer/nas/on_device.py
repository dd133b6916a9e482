"""What candidates take on this device: predicted from a table of its sublayers, measured for models of the front."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from random import Random

from sublayer.measurement import Predictor, Setting, race
from sublayer.nas.records import MeasuredFigures
from sublayer.nas.reporters import SearchReporter
from sublayer.nas.space import Space
from sublayer.nas.stages import CountStage, Stage, WeightStage
from sublayer.nas.trial import Figures
from sublayer.nn.model import Model
from sublayer.runs.wording import plural

log = logging.getLogger("sublayer.nas")

LEARNED, CALIBRATED = 96, 20
"""Candidates drawn before the search: those whose sublayers are measured, and those of them measured whole."""


class LatencyStage(Stage):
    """Latency and memory, predicted. A candidate too large by its parameters alone is never measured."""

    def __init__(
        self,
        predictor: Predictor,
        limits: Mapping[str, float],
        reporter: SearchReporter,
        wait: float = 0.0,
        remeasure: bool = False,
    ) -> None:
        """wait: seconds to wait for a quiet machine before anything is measured. remeasure: drop stored readings."""
        self.predictor, self.limits, self.reporter = predictor, limits, reporter
        self.wait, self.remeasure = wait, remeasure
        self._cheap = [CountStage(), WeightStage()]

    def prepare(self, space: Space) -> None:
        """Measure the sublayers of candidates drawn at random, and calibrate on some of those candidates."""
        if self.remeasure:
            self.predictor.forget()
        rng, count, configs = Random(0), 10 * LEARNED, []
        for n in range(count):
            self.reporter.phase("drawing candidates", n, count)
            if (one := space.candidate(space.sample(rng))) is not None:
                configs.append(one.config)
        first = ([config for config in configs if self.fits(config)] or configs)[:LEARNED]
        if not self.predictor.knows(first):
            self._await_quiet()
        self.predictor.learn(first, self._report("measuring sublayers on this device"))
        self.predictor.calibrate(first[:CALIBRATED], self._report("measuring whole models on this device"))

    def look_ahead(self, configs: Sequence[Model.Config]) -> None:
        """Measure the sublayers of a generation that are not in the table yet."""
        fitting = [config for config in configs if self.fits(config)]
        self.predictor.learn(fitting, self._report("measuring sublayers on this device"))

    def figures(self, config: Model.Config) -> Figures:
        estimate = self.predictor.predict(config)
        return {"latency": estimate.latency, "memory": estimate.memory}

    def settle(self) -> bool:
        """Measure again what was disturbed, if nothing disturbs now; candidates are then predicted anew."""
        self.predictor.relearn(self._report("measuring again what was disturbed"))
        return True

    @property
    def disturbed(self) -> str | None:
        return self.predictor.disturbed

    def allowance(self, budget: Model.Config) -> Figures:
        return {"latency": self.predictor.read(budget).latency}

    def close(self) -> None:
        self.predictor.close()

    def _await_quiet(self) -> None:
        self.reporter.timed_phase("waiting for a quiet machine", self.wait)
        why = self.predictor.await_quiet(self.wait, self.reporter.activity)
        if why:
            log.warning("%s, still so after %g s: times are corrected, and measured again later", why, self.wait)

    def fits(self, config: Model.Config) -> bool:
        """Whether its counted figures are within the limits."""
        counted = {name: value for stage in self._cheap for name, value in stage.figures(config).items()}
        return all(counted.get(name, 0) <= most for name, most in self.limits.items())

    def _report(self, phase: str) -> Callable[[int, int], None]:
        return lambda done, total: self.reporter.phase(phase, done, total)


class DeviceMeter:
    """Measures whole models in one race, for at most `seconds` each."""

    def __init__(
        self, setting: Setting, seconds: float, plugins: Sequence[str], reporter: SearchReporter, wait: float = 0.0
    ) -> None:
        """wait: seconds to spend on repeating a race that was disturbed."""
        self.setting, self.seconds, self.plugins, self.reporter, self.wait = setting, seconds, plugins, reporter, wait

    def measure(self, configs: Sequence[Model.Config]) -> list[MeasuredFigures]:
        phase = f"measuring {plural(len(configs), 'model')} of the front in turn"
        self.reporter.timed_phase(phase, self.seconds * len(configs))
        found = race(
            configs,
            self.setting,
            seconds=self.seconds,
            wait=self.wait,
            alone=False,
            plugins=self.plugins,
            on_wait=lambda why: self.reporter.activity(f"waiting, as {why}"),
        )
        if found.disturbed:
            log.warning("the front was measured on a busy machine (%s); search again to repeat it", found.disturbed)
        return [
            MeasuredFigures(
                latency=one.latency, low=one.low, high=one.high, memory=one.memory, raw=one.raw, disturbed=one.disturbed
            )
            for one in found.readings
        ]
