"""Conditions: what the machine was like while a model was timed, and whether that spoils its figure."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from statistics import quantiles
from typing import Any

from sublayer.measurement.clock import LEAST, Repeat, Timing
from sublayer.measurement.counters import Neighbours, load_average

SLACK = 0.25
"""Processors that others may take of those that the threads need."""
BUSY = 0.125
"""Share of all processors that others may take at the device's quiet pace; at least SLACK."""
SLOWEST = 1.08
"""The largest slowdown that is corrected: beyond it, the reference load and a model no longer slow down alike."""
UNEVEN = 1.2
"""The largest ratio between slow and quick runs, at their quartiles. Bursts that are shorter than a run and longer than
the reference load, show here alone."""


@dataclass(frozen=True)
class Conditions:
    """Figures are None where the system does not count them."""

    repeats: int
    """Runs taken, those that were taken again included."""
    clean: int
    """Runs that had a processor all the time."""
    waited: float
    """Share of their time in which runs waited for a processor."""
    cpu: float
    """CPU seconds of this process for each second of a run."""
    switches: float | None
    """Times that the system took the processor away, for each run."""
    others: float | None
    """Processors that other processes took, on average."""
    stolen: float | None
    """Processors that other machines on the host took."""
    load: float | None
    """Load average of the last minute."""
    threads: int
    cores: int
    uneven: float = 1.0
    """The upper quartile of the runs' times over the lower one."""
    slowdown: float = 1.0
    """How many times slower than at the device's quiet pace the reference load ran, as it bears on this model."""
    uncalibrated: str | None = None
    """What disturbed the machine whenever its pace was seen, so that its quiet pace is not known yet."""

    @classmethod
    def of(cls, timing: Timing, threads: int, neighbours: Neighbours | None) -> Conditions:
        taken = [*timing.repeats, *timing.discarded]
        wall = sum(one.lap.wall for one in taken) or 1e-9
        return cls(
            repeats=len(taken),
            clean=len(timing.clean),
            waited=sum(one.lap.waited for one in taken) / wall,
            cpu=sum(one.lap.used.cpu for one in taken) / wall,
            switches=_switches(taken),
            others=neighbours and neighbours.processes,
            stolen=neighbours and neighbours.machines,
            load=load_average(),
            threads=threads,
            cores=os.cpu_count() or 1,
            uneven=_uneven(timing.at_pace(timing.pace)),
        )

    @property
    def disturbed(self) -> str | None:
        """What disturbs too much for a correction; None if nothing does."""
        taken = disturbance(self.others, self.stolen, self.threads, self.cores)
        return taken or self._starved or self._slow or self._bursts or self._unknown

    @property
    def busy(self) -> str | None:
        """Who keeps the machine from its quiet pace, even where this process has all the processors it needs."""
        spare = max(SLACK, BUSY * self.cores)
        if (self.others or 0.0) + (self.stolen or 0.0) <= spare:
            return self._starved
        return _who(self.others, self.stolen)

    @property
    def _starved(self) -> str | None:
        if self.clean >= LEAST:
            return None
        return f"runs wait {100 * self.waited:.0f} % of their time for a processor"

    @property
    def _slow(self) -> str | None:
        if self.slowdown <= SLOWEST:
            return None
        return f"the device runs at {1 / self.slowdown:.2f} of its quiet pace"

    @property
    def _bursts(self) -> str | None:
        if self.uneven <= UNEVEN:
            return None
        return f"a quarter of the runs takes {100 * (self.uneven - 1):.0f} % longer than another quarter"

    @property
    def _unknown(self) -> str | None:
        return self.uncalibrated and f"the quiet pace of this device is not known yet, as {self.uncalibrated}"

    def dump(self) -> dict[str, Any]:
        return {**asdict(self), "disturbed": self.disturbed}

    @classmethod
    def read(cls, data: dict[str, Any]) -> Conditions:
        return cls(**{name: value for name, value in data.items() if name != "disturbed"})


def disturbance(others: float | None, stolen: float | None, threads: int, cores: int) -> str | None:
    """Who takes processors that so many threads need; None if they have enough."""
    spare = max(0, cores - threads) + SLACK
    if (others or 0.0) + (stolen or 0.0) <= spare:
        return None
    return f"{_who(others, stolen)}, and {threads} of {cores} are needed"


def _who(others: float | None, stolen: float | None) -> str:
    processes, machines = others or 0.0, stolen or 0.0
    who = "other processes take" if processes >= machines else "other machines on this host take"
    return f"{who} {_processors(max(processes, machines))}"


def _processors(count: float) -> str:
    return f"{100 * count:.0f} % of a core" if count < 1.005 else f"{count:.1f} cores"


def _switches(taken: Sequence[Repeat]) -> float | None:
    known = [one.lap.used.switches for one in taken if one.lap.used.switches is not None]
    return sum(known) / len(known) if known else None


def _uneven(seconds: Sequence[float]) -> float:
    lower, _, upper = quantiles(seconds, n=4)
    return upper / lower
