"""Reading: the measured latency and memory of one model."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, replace
from typing import Any

from sublayer.measurement.clock import Z
from sublayer.measurement.conditions import Conditions
from sublayer.measurement.pace import Pace, Shares, of_this_load
from sublayer.measurement.quiet_pace import QuietPace

NOISY = 0.4
"""The spread of a median above which it is useless."""
UNSURE = 0.5
"""Standard deviation of a correction, as a share of it, in logarithms."""


@dataclass(frozen=True)
class Memory:
    """In bytes, at the peak of the pass."""

    weights: int
    state: int
    """State before the pass."""
    peak: int
    """What the pass allocates, at its peak."""
    kept: int
    """What of that is still allocated at its end: state it has added, and its result."""

    @property
    def total(self) -> int:
        return self.weights + self.state + self.peak


@dataclass(frozen=True)
class Reading:
    latency: float
    """Seconds: the median, at the device's quiet pace."""
    low: float
    high: float
    """95 % interval of what the same model takes in another process at another time."""
    repeats: int
    parts: Memory
    device: dict[str, Any]
    high_water: int | None = None
    """Bytes by which a process that held only this model grew; None where it held others before."""
    raw: float | None = None
    """Seconds: the median as the clock showed it."""
    pace: Pace | None = None
    """Of the reference load next to it."""
    shares: Shares | None = None
    """How the model spends its time, which is how the reference load's slowdown bears on it."""
    conditions: Conditions | None = None
    """None where they were not recorded, as by earlier versions."""

    @property
    def memory(self) -> int:
        """Bytes: weights, state and activations at their peak."""
        return self.parts.total

    @property
    def spread(self) -> float:
        return (self.high - self.low) / 2 / self.latency

    @property
    def disturbed(self) -> str | None:
        """Why the figure is wrong or useless; None if it is neither."""
        if self.conditions is not None and self.conditions.disturbed:
            return self.conditions.disturbed
        if self.spread <= NOISY:
            return None
        return (
            f"{self.repeats} repeats of {1e3 * self.latency:.3g} ms leave the median open by ±{100 * self.spread:.0f} %"
        )

    def at(self, quiet: QuietPace) -> Reading:
        """At the device's quiet pace, of a reading at its own; its interval allows for the correction, and for the
        difference between processes."""
        if self.pace is None or self.shares is None or self.conditions is None:
            return self
        slowdown = self.pace.slowdown(quiet.pace, self.shares)
        # The process of this reading differs from the usual one, and so does the one that it is compared with.
        between = Z * math.hypot(math.sqrt(2) * quiet.spread, UNSURE * math.log(slowdown))
        below, above = (math.hypot(math.log(one / self.latency), between) for one in (self.low, self.high))
        latency = self.latency / slowdown
        return replace(
            self,
            latency=latency,
            low=latency * math.exp(-below),
            high=latency * math.exp(above),
            conditions=replace(self.conditions, slowdown=slowdown, uncalibrated=quiet.disturbed),
        )

    def dump(self) -> dict[str, Any]:
        conditions = self.conditions and self.conditions.dump()
        return {**asdict(self), "conditions": conditions, "memory": self.memory, "disturbed": self.disturbed}

    @classmethod
    def read(cls, data: dict[str, Any]) -> Reading:
        fields = {name: value for name, value in data.items() if name not in ("memory", "disturbed")}
        if fields.get("pace") is not None and not of_this_load(fields["pace"]):
            fields |= {"pace": None, "shares": None}
        kinds = {"parts": Memory, "pace": Pace, "shares": Shares}
        fields |= {name: kind(**fields[name]) for name, kind in kinds.items() if fields.get(name) is not None}
        if fields.get("conditions") is not None:
            fields["conditions"] = Conditions.read(fields["conditions"])
        return cls(**fields)
