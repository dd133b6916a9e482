"""How busy other processes keep this machine: what they take, a timing cannot tell from slow code."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path

STAT = Path("/proc/stat")
QUIET = 0.05
"""Share of the machine that others may take while something is timed."""


@dataclass(frozen=True)
class Reading:
    """Seconds since the machine started, of all processors together."""

    whole: float
    idle: float
    own: float

    @classmethod
    def now(cls) -> Reading | None:
        """None where the system does not say."""
        if not STAT.exists():
            return None
        ticks = [int(word) for word in STAT.read_text().split("\n", 1)[0].split()[1:9]]
        second = os.sysconf("SC_CLK_TCK")
        return cls(sum(ticks) / second, (ticks[3] + ticks[4]) / second, time.process_time())


def share(before: Reading | None, after: Reading | None) -> float:
    """What others took of the machine between two readings, 0 … 1; 0 where nobody can say."""
    if before is None or after is None or after.whole <= before.whole:
        return 0.0
    whole, idle, own = after.whole - before.whole, after.idle - before.idle, after.own - before.own
    return min(max((whole - idle - own) / whole, 0.0), 1.0)


def wait(end: float, look: float = 0.5) -> None:
    """Until the others are quiet, or the clock (`time.perf_counter`) passes `end`."""
    while time.perf_counter() < end:
        before = Reading.now()
        if before is None:
            return
        time.sleep(look)
        if share(before, Reading.now()) <= QUIET:
            return
