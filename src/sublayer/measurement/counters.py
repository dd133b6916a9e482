"""Counters of the system: what this process used and waited for, and how busy all processors were.

Each is None where the system does not count it: /proc is Linux's, getrusage is that of Unix.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path

try:
    import resource
except ImportError:  # Windows
    resource = None

STAT, TASKS = Path("/proc/stat"), Path("/proc/self/task")


@dataclass(frozen=True)
class ProcessCounters:
    """Of this process since its start; all its threads together."""

    cpu: float
    """Seconds on a processor."""
    waited: float | None = None
    """Seconds in which a thread was ready to run and had no processor."""
    switches: int | None = None
    """Times that the system took the processor from a thread."""

    @classmethod
    def now(cls) -> ProcessCounters:
        switches = None if resource is None else resource.getrusage(resource.RUSAGE_SELF).ru_nivcsw
        return cls(time.process_time(), _waited(), switches)

    def __sub__(self, before: ProcessCounters) -> ProcessCounters:
        return ProcessCounters(
            self.cpu - before.cpu,
            None if self.waited is None or before.waited is None else max(0.0, self.waited - before.waited),
            None if self.switches is None or before.switches is None else self.switches - before.switches,
        )


def _waited() -> float | None:
    try:
        # schedstat: nanoseconds on a processor, nanoseconds on the run queue, time slices.
        return 1e-9 * sum(int((TASKS / name / "schedstat").read_bytes().split()[1]) for name in os.listdir(TASKS))
    except (OSError, IndexError, ValueError):  # not Linux, or a thread that has just ended
        return None


@dataclass(frozen=True)
class MachineCounters:
    """Processor seconds since the machine started, of all processors together."""

    busy: float
    stolen: float
    """Seconds that the hypervisor gave to other machines."""
    idle: float
    own: float
    """Of the busy ones, those of this process."""

    @classmethod
    def now(cls) -> MachineCounters | None:
        try:
            ticks = [int(word) for word in STAT.read_text().split("\n", 1)[0].split()[1:9]]
            second = os.sysconf("SC_CLK_TCK")
        except (OSError, ValueError, AttributeError):
            return None
        idle, stolen = ticks[3] + ticks[4], ticks[7]
        return cls((sum(ticks) - idle - stolen) / second, stolen / second, idle / second, time.process_time())


@dataclass(frozen=True)
class Neighbours:
    """What others took between two moments, in processors: 1.0 is the whole of one."""

    processes: float
    """Other processes of this machine."""
    machines: float
    """Other machines on the same host."""

    @classmethod
    def between(cls, before: MachineCounters | None, after: MachineCounters | None) -> Neighbours | None:
        if before is None or after is None:
            return None
        whole = sum(getattr(after, name) - getattr(before, name) for name in ("busy", "stolen", "idle"))
        if whole <= 0:  # less than a tick
            return None
        per_second = (os.cpu_count() or 1) / whole
        others = (after.busy - before.busy) - (after.own - before.own)
        return cls(max(0.0, others) * per_second, max(0.0, after.stolen - before.stolen) * per_second)


def load_average() -> float | None:
    """Over the last minute."""
    return os.getloadavg()[0] if hasattr(os, "getloadavg") else None
