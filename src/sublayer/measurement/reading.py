"""Reading: the measured latency and memory of one model."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

NOISY = 0.4
"""The spread of a median above which it is useless."""


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
    """Seconds: the median."""
    low: float
    high: float
    """95 % interval of the median."""
    repeats: int
    pace: float
    """Seconds of the reference load next to it, which shows whether the device was slow at that moment."""
    parts: Memory
    device: dict[str, Any]
    high_water: int | None = None
    """Bytes by which a process that held only this model grew; None where it held others before."""

    @property
    def memory(self) -> int:
        """Bytes: weights, state and activations at their peak."""
        return self.parts.total

    @property
    def spread(self) -> float:
        return (self.high - self.low) / 2 / self.latency

    @property
    def noise(self) -> str | None:
        """Why the median is useless; None if it is not."""
        if self.spread <= NOISY:
            return None
        return (
            f"this device is too noisy to measure: {self.repeats} readings of {1e3 * self.latency:.3g} ms leave the "
            f"median open by ±{100 * self.spread:.0f} %; stop other programs, or measure for longer (--seconds)"
        )

    def dump(self) -> dict[str, Any]:
        return {**asdict(self), "memory": self.memory}

    @classmethod
    def read(cls, data: dict[str, Any]) -> Reading:
        fields = {name: value for name, value in data.items() if name != "memory"}
        return cls(**{**fields, "parts": Memory(**data["parts"])})
