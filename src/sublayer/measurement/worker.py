"""A separate process that measures: it holds nothing else, has a fixed number of threads, and may die alone."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from sublayer.executors import wire
from sublayer.executors.processes import Process
from sublayer.measurement import need
from sublayer.measurement.calibration import calibrate
from sublayer.measurement.lock import measuring_lock
from sublayer.measurement.quiet_pace import PaceFile, QuietPace, Sample
from sublayer.measurement.ratios import Race
from sublayer.measurement.reading import Reading
from sublayer.measurement.setting import Setting
from sublayer.nn.model import Model

PROBE = "sublayer.measurement.probe:probe"


class Worker:
    """The caller's side of it: `with Worker(setting) as worker: worker.read(config)`."""

    def __init__(self, setting: Setting, plugins: Sequence[str] = (), folder: Path | str | None = None) -> None:
        """folder: of the cache, where the device's quiet pace is stored."""
        self.setting, self.plugins, self.folder = setting.resolved(), plugins, folder
        self._learned = False

    def read(
        self,
        config: Model.Config,
        *,
        memory: int | None = None,
        tolerance: float = 0.02,
        seconds: float = 2.0,
        alone: bool = False,
    ) -> Reading:
        """A model at the pace of this moment; `settle` scales it to the quiet pace.

        memory: instead of the setting's. alone: the process has held no other model, so that its high-water mark is
        this model's.
        """
        setting = self.setting if memory is None else self.setting.but(memory=memory)
        found = self._ask([config], setting, tolerance=tolerance, seconds=seconds, alone=alone)
        return Reading.read(found["readings"][0])

    def race(self, configs: Sequence[Model.Config], *, tolerance: float = 0.02, seconds: float = 2.0) -> Race:
        """Several models, their runs interleaved; readings are at the quiet pace."""
        need.check_together(configs, self.setting)
        found = self._ask(configs, self.setting, tolerance=tolerance, seconds=seconds, alone=False)
        readings = [Reading.read(one) for one in found["readings"]]
        quiet = self.learn_pace(readings[0])
        return Race([one.at(quiet) for one in readings], found["rounds"])

    def high_water(self, config: Model.Config) -> int | None:
        """Bytes by which a process grows that holds only this model; this one has held no other."""
        return self._ask([config], self.setting, tolerance=1.0, seconds=0.0, alone=True)["high_water"][0]

    def settle(self, reading: Reading) -> Reading:
        """The reading at the quiet pace."""
        return reading.at(self.learn_pace(reading))

    def learn_pace(self, reading: Reading) -> QuietPace:
        """The device's quiet pace. The first reading of a process adds to it, and so does a faster one."""
        assert reading.pace is not None, "only readings of earlier versions lack their pace"
        assert reading.conditions is not None
        sample = Sample(reading.pace, reading.conditions.busy)
        file = PaceFile(reading.device["id"], self.folder)
        known = file.quiet()
        if known is None or not self._learned or sample.improves(known):
            self._learned = True
            known = file.add(sample)
        return known

    def _ask(self, configs: Sequence[Model.Config], setting: Setting, **how: Any) -> dict[str, Any]:
        for config in configs:
            setting.check(config)
            need.check(config, setting)
        if "_process" not in vars(self):
            calibrate(self.setting, self.folder)
        task = {"configs": [config.dump() for config in configs], "setting": setting.dump(), **how}
        with measuring_lock():
            found = self._process.ask(PROBE, task)
        if found is None:
            raise ValueError(
                f"the process that measures died, {self._process.bury()}; where memory ran out, measure a smaller "
                "model, batch or length"
            )
        return wire.read(found)

    @cached_property
    def _process(self) -> Process:
        """Started by the first reading: starting is work, too, and has to wait for the lock."""
        assert self.setting.threads is not None
        # Without it the profiler, which counts memory, logs each start and stop.
        return Process(self.setting.threads, self.plugins, {"KINETO_LOG_LEVEL": "99"})

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, *_: object) -> None:
        if "_process" in vars(self):
            self._process.kill()
            self._process.bury()
