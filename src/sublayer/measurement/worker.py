"""A separate process that measures: it holds nothing else, has a fixed number of threads, and may die alone."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

from sublayer.executors import wire
from sublayer.executors.processes import Process
from sublayer.measurement import need
from sublayer.measurement.lock import measuring_lock
from sublayer.measurement.reading import Reading
from sublayer.measurement.setting import Setting
from sublayer.nn.model import Model

PROBE = "sublayer.measurement.probe:probe"


def measure(
    configs: Sequence[Model.Config],
    setting: Setting | None = None,
    *,
    tolerance: float = 0.02,
    seconds: float = 3.0,
    plugins: Sequence[str] = (),
) -> list[Reading]:
    """Measure whole models on this device, each in a new process."""
    readings = []
    for config in configs:
        with Worker(setting or Setting(), plugins) as worker:
            readings.append(worker.read(config, tolerance=tolerance, seconds=seconds, alone=True))
    return readings


class Worker:
    """The caller's side of it: `with Worker(setting) as worker: worker.read(config)`."""

    def __init__(self, setting: Setting, plugins: Sequence[str] = ()) -> None:
        self.setting, self.plugins = setting.resolved(), plugins

    def read(
        self,
        config: Model.Config,
        *,
        memory: int | None = None,
        tolerance: float = 0.02,
        seconds: float = 2.0,
        alone: bool = False,
    ) -> Reading:
        """memory: instead of the setting's. alone: the process has held no other model, so that its high-water mark is
        this model's."""
        setting = self.setting if memory is None else self.setting.but(memory=memory)
        setting.check(config)
        need.check(config, setting)
        how = {"tolerance": tolerance, "seconds": seconds, "alone": alone}
        with measuring_lock():
            found = self._process.ask(PROBE, {"config": config.dump(), "setting": setting.dump(), **how})
        if found is None:
            raise ValueError(
                f"the process that measures died, {self._process.bury()}; where memory ran out, measure a smaller "
                "model, batch or length"
            )
        return Reading.read(wire.read(found))

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
