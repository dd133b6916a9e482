"""Waiting for a quiet machine: what is disturbed is measured again, as long as the caller has patience."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, TypeVar

from sublayer.measurement.conditions import disturbance
from sublayer.measurement.counters import MachineCounters, Neighbours

WAIT = 30.0
"""Seconds to wait for a quiet machine, unless asked otherwise."""
LOOK = 0.5
"""Seconds of one look at the machine."""
OPTIONS = "stop other programs, wait longer (--wait SECONDS), or take the figure as it is (--anyway)"
AGAIN = "stop other programs; the same command then measures again"
"""What to do about a refused figure: with the options of `measure`, or without."""


class Disturbable(Protocol):
    @property
    def disturbed(self) -> str | None: ...


T = TypeVar("T", bound=Disturbable)
OnWait = Callable[[str], object]
"""Called with what disturbs."""


@dataclass(frozen=True)
class Machine:
    """The machine as it is now; tests give another."""

    now: Callable[[], float] = time.monotonic
    sleep: Callable[[float], object] = time.sleep
    counters: Callable[[], MachineCounters | None] = MachineCounters.now

    def disturbance(self, threads: int, look: float = LOOK) -> str | None:
        """Who takes the processors that so many threads need; None if nobody does, or the system does not count."""
        before = self.counters()
        self.sleep(look)
        others = Neighbours.between(before, self.counters())
        return others and disturbance(others.processes, others.machines, threads, os.cpu_count() or 1)

    def wait(self, seconds: float, threads: int, on_wait: OnWait = lambda why: None) -> str | None:
        """Until nobody disturbs, for at most `seconds`; what still disturbs then."""
        end = self.now() + seconds
        while (why := self.disturbance(threads)) and self.now() < end:
            on_wait(why)
        return why


def undisturbed(
    take: Callable[[], T], wait: float, threads: int, on_wait: OnWait = lambda why: None, machine: Machine | None = None
) -> T:
    """The first undisturbed result of `take`, which is tried again for `wait` seconds; the last one if none is."""
    machine = machine or Machine()
    end, found = machine.now() + wait, take()
    while found.disturbed and machine.now() < end:
        on_wait(found.disturbed)
        machine.wait(end - machine.now(), threads, on_wait)
        found = take()
    return found


def require_quiet(found: T, waited: float, remedy: str = OPTIONS) -> T:
    """What was measured, unless it was disturbed: that is refused in one line."""
    if found.disturbed:
        raise ValueError(
            f"the machine is too busy to measure: {found.disturbed}, still so after {waited:g} s; {remedy}"
        )
    return found
