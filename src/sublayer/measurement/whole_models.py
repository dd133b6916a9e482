"""Whole models measured on this device: one in a process of its own, or several in a race.

Short passes are measured in several processes: where memory lies and threads run differs between them, and a pass of a
millisecond or two shows it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import chain

from sublayer.measurement.quiet import OnWait, undisturbed
from sublayer.measurement.ratios import Race
from sublayer.measurement.reading import Reading
from sublayer.measurement.setting import Setting
from sublayer.measurement.worker import Worker
from sublayer.nn.model import Model

SHORT = 4e-3
"""Seconds below which a pass is measured in PROCESSES processes."""
PROCESSES = 3


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

    def one(config: Model.Config) -> Race:
        with Worker(setting or Setting(), plugins) as worker:
            return Race([_measure(worker, config, tolerance, seconds, wait, on_wait)], [[]])

    return [_repeated(lambda config=config: one(config)).readings[0] for config in configs]


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

    def once() -> Race:
        with Worker(asked, plugins) as worker:
            return undisturbed(
                lambda: worker.race(configs, tolerance=tolerance, seconds=seconds),
                wait,
                worker.setting.threads or 1,
                on_wait,
            )

    found = _repeated(once)
    marks = marks or [None] * len(configs)
    readings = [replace(one, high_water=mark) for one, mark in zip(found.readings, marks, strict=True)]
    return Race(readings, found.rounds)


def _repeated(race: Callable[[], Race]) -> Race:
    """One race; where a pass is short, several, each in a new process."""
    races = [race()]
    if not races[0].disturbed and min(one.latency for one in races[0].readings) < SHORT:
        races += [race() for _ in range(PROCESSES - 1)]
    models = zip(*(one.readings for one in races), strict=True)
    rounds = zip(*(one.rounds for one in races), strict=True)
    return Race([middle(several) for several in models], [list(chain(*several)) for several in rounds])


def middle(several: Sequence[Reading]) -> Reading:
    """The one whose latency is the median, with an interval that holds the others; a disturbed one, where most are."""
    good = sorted((one for one in several if not one.disturbed), key=lambda one: one.latency)
    if 2 * len(good) <= len(several):
        return next(one for one in several if one.disturbed)
    one, latencies = good[(len(good) - 1) // 2], [each.latency for each in good]
    return replace(
        one,
        low=min(one.low, *latencies),
        high=max(one.high, *latencies),
        high_water=several[0].high_water,
    )
