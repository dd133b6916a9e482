"""Timing: runs of several models in rounds, each between two runs of the reference load.

A run that had to wait for a processor is taken again. The rest is scaled to one pace by the reference load just before
and after it; the figure of a model is the median over rounds.
"""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median

from sublayer.measurement.counters import ProcessCounters
from sublayer.measurement.pace import Pace, Shares

LEAST = 5
"""Least number of rounds."""
WARM_UP = 3
BESIDE = 0.1
"""Time for the reference load, as a share of a run's: next to a long run, a single one would be too noisy."""
CLEAN = 0.01
"""Share of a run's time that it may wait for a processor."""
TRIES = 4
"""How often a run is taken in one round until it is clean."""
Z = 1.96
"""Standard deviations of a 95 % interval."""


@dataclass(frozen=True)
class Lap:
    """One call, timed."""

    wall: float
    """Seconds."""
    used: ProcessCounters
    """What the process used and waited for meanwhile."""

    @property
    def waited(self) -> float:
        """Seconds without a processor. Where the system does not count them, the least that CPU time tells."""
        waited = self.wall - self.used.cpu if self.used.waited is None else self.used.waited
        return min(max(waited, 0.0), 0.9 * self.wall)

    @property
    def clean(self) -> bool:
        return self.waited <= CLEAN * self.wall

    @property
    def seconds(self) -> float:
        """Without the time that it waited."""
        return self.wall - self.waited


@dataclass(frozen=True)
class Watch:
    """A stopwatch that also reads what the process used; tests give it another clock."""

    now: Callable[[], float] = time.perf_counter
    counters: Callable[[], ProcessCounters] = ProcessCounters.now

    def time(self, work: Callable[[], object]) -> Lap:
        before, start = self.counters(), self.now()
        work()
        wall = self.now() - start
        return Lap(wall, self.counters() - before)


@dataclass(frozen=True)
class Repeat:
    """A run, and the pace around it."""

    lap: Lap
    pace: Pace


@dataclass(frozen=True)
class Runner:
    """What is timed: `run`, after each `prepare`."""

    run: Callable[[], object]
    prepare: Callable[[], object] = lambda: None
    shares: Callable[[float, Pace], Shares] = lambda seconds, pace: Shares(1.0, 0.0, 0.0)
    """How a run that takes so many seconds at such a pace spends them."""


@dataclass
class Timing:
    """The repeats of one model."""

    shares: Shares
    repeats: list[Repeat] = field(default_factory=list)
    """One a round."""
    discarded: list[Repeat] = field(default_factory=list)
    """Those that were taken again."""

    @property
    def clean(self) -> list[Repeat]:
        return [one for one in self.repeats if one.lap.clean]

    @property
    def used(self) -> list[Repeat]:
        """The clean ones; all, where too few are."""
        return self.clean if len(self.clean) >= LEAST else self.repeats

    @property
    def pace(self) -> Pace:
        """The usual one while it was timed."""
        return Pace.median([one.pace for one in self.used])

    @property
    def rounds(self) -> list[float | None]:
        """Seconds of each round at the usual pace; None where the run had to wait for a processor."""
        pace = self.pace
        return [self._scaled(one, pace) if one.lap.clean else None for one in self.repeats]

    def at_pace(self, pace: Pace) -> list[float]:
        """Seconds of the used repeats, scaled to one pace."""
        return [self._scaled(one, pace) for one in self.used]

    def _scaled(self, repeat: Repeat, pace: Pace) -> float:
        return repeat.lap.seconds / repeat.pace.slowdown(pace, self.shares)


def timed(
    runners: Sequence[Runner],
    reference: Mapping[str, Callable[[], object]],
    *,
    tolerance: float = 0.02,
    seconds: float = 2.0,
    watch: Watch | None = None,
    seed: int = 0,
) -> list[Timing]:
    """Rounds until every median is known to within `tolerance`, or for `seconds` a model; at least LEAST of them.

    reference: the components of the reference load.
    """
    watch, order = watch or Watch(), random.Random(seed)
    walls = [_warm_up(runner, watch) for runner in runners]
    before = [_pace(reference, watch, 1) for _ in range(WARM_UP)][-1]
    beside = [max(1, round(BESIDE * wall / sum(before))) for wall in walls]
    timings = [Timing(runner.shares(wall, before)) for runner, wall in zip(runners, walls, strict=True)]
    begun = watch.now()
    while not _ended(timings, tolerance, watch.now() - begun, seconds * len(runners)):
        # What is disturbed is taken again as long as rounds may last once more.
        patient = watch.now() - begun < 2 * seconds * len(runners)
        for n in order.sample(range(len(runners)), len(runners)):
            if len(runners) > 1:
                before = _take_over(runners[n], reference, beside[n], watch)
            before = _round(runners[n], timings[n], reference, beside[n], before, watch, TRIES if patient else 1)
    return timings


def _take_over(runner: Runner, reference: Mapping[str, Callable[[], object]], beside: int, watch: Watch) -> Pace:
    """Run once without timing: the caches then hold this model's weights, not those of the one before, as if it ran
    alone. Returns the pace after it."""
    runner.prepare()
    runner.run()
    return _pace(reference, watch, beside)


def _round(
    runner: Runner,
    timing: Timing,
    reference: Mapping[str, Callable[[], object]],
    beside: int,
    before: Pace,
    watch: Watch,
    most: int,
) -> Pace:
    """One clean repeat, or the best of `most`; returns the pace after it."""
    tries: list[Repeat] = []
    while len(tries) < most and not any(one.lap.clean for one in tries):
        runner.prepare()
        lap, after = watch.time(runner.run), _pace(reference, watch, beside)
        around = Pace(*(math.sqrt(a * b) for a, b in zip(before, after, strict=True)))
        tries.append(Repeat(lap, around))
        before = after
    best = min(tries, key=lambda one: one.lap.waited / max(one.lap.wall, 1e-12))
    timing.repeats.append(best)
    timing.discarded += [one for one in tries if one is not best]
    return before


def _ended(timings: Sequence[Timing], tolerance: float, took: float, seconds: float) -> bool:
    if any(len(timing.repeats) < LEAST for timing in timings):
        return False
    known = all(len(timing.clean) >= LEAST and spread(timing.at_pace(timing.pace)) <= tolerance for timing in timings)
    return known or took >= seconds


def _warm_up(runner: Runner, watch: Watch) -> float:
    """Seconds of the last of a few runs."""
    took = 0.0
    for _ in range(WARM_UP):
        runner.prepare()
        took = watch.time(runner.run).seconds
    return took


def _pace(reference: Mapping[str, Callable[[], object]], watch: Watch, times: int) -> Pace:
    """The median of `times` runs of the reference load; a component that had to wait is run again."""
    return Pace.median([Pace(**{name: _clean(work, watch) for name, work in reference.items()}) for _ in range(times)])


def _clean(work: Callable[[], object], watch: Watch) -> float:
    for _ in range(TRIES - 1):
        if (lap := watch.time(work)).clean:
            return lap.seconds
    return watch.time(work).seconds


def interval(values: Sequence[float]) -> tuple[float, float]:
    """95 % interval of the median, by order statistics, for any distribution."""
    there, n = sorted(values), len(values)
    below = max(0, math.floor((n - 1 - Z * math.sqrt(n)) / 2))  # conservative where repeats are few
    return there[below], there[n - 1 - below]


def spread(values: Sequence[float]) -> float:
    """Half the interval, as a share of the median."""
    low, high = interval(values)
    return (high - low) / 2 / median(values)
