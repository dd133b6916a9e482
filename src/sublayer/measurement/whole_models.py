"""Whole models measured on this device: one in a process of its own, or several in a race."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sublayer.measurement.quiet import OnWait, undisturbed
from sublayer.measurement.ratios import Race
from sublayer.measurement.reading import Reading
from sublayer.measurement.setting import Setting
from sublayer.measurement.worker import Worker
from sublayer.nn.model import Model


def measure(
    configs: Sequence[Model.Config],
    setting: Setting | None = None,
    *,
    tolerance: float = 0.02,
    seconds: float = 3.0,
    wait: float = 0.0,
    plugins: Sequence[str] = (),
    on_wait: OnWait = lambda why: None,
) -> list[Reading]:
    """Measure models one after another, each in a new process; times are at the device's quiet pace.

    wait: seconds to spend on repeating a reading that was disturbed; whether it still is, `reading.disturbed` tells.
    """
    readings = []
    for config in configs:
        with Worker(setting or Setting(), plugins) as worker:
            readings.append(_measure(worker, config, tolerance, seconds, wait, on_wait))
    return readings


def _measure(
    worker: Worker, config: Model.Config, tolerance: float, seconds: float, wait: float, on_wait: OnWait
) -> Reading:
    marks: list[int | None] = []

    def take() -> Reading:
        """The first one has the process alone."""
        found = worker.settle(worker.read(config, tolerance=tolerance, seconds=seconds, alone=not marks))
        marks.append(found.high_water)
        return replace(found, high_water=marks[0])

    return undisturbed(take, wait, worker.setting.threads or 1, on_wait)


def race(
    configs: Sequence[Model.Config],
    setting: Setting | None = None,
    *,
    tolerance: float = 0.02,
    seconds: float = 3.0,
    wait: float = 0.0,
    alone: bool = True,
    plugins: Sequence[str] = (),
    on_wait: OnWait = lambda why: None,
) -> Race:
    """Measure models against each other, in rounds: each runs once a round, in random order, in one process.

    seconds: for each model. alone: also measure the high-water mark of each, in a process of its own.
    """
    asked = setting or Setting()
    marks: list[int | None] = []
    for config in configs if alone else ():
        with Worker(asked, plugins) as worker:
            marks.append(worker.high_water(config))
    with Worker(asked, plugins) as worker:
        found = undisturbed(
            lambda: worker.race(configs, tolerance=tolerance, seconds=seconds),
            wait,
            worker.setting.threads or 1,
            on_wait,
        )
    marks = marks or [None] * len(configs)
    readings = [replace(one, high_water=mark) for one, mark in zip(found.readings, marks, strict=True)]
    return Race(readings, found.rounds)
