"""Reading: one model's time and memory, as they were measured."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

NOISY = 0.4
"""The spread of a median beyond which it says nothing."""


@dataclass(frozen=True)
class Memory:
    """In bytes, at the moment when most is in use."""

    weights: int
    state: int
    """What is carried into the pass."""
    peak: int
    """What the pass allocates, at most at once."""
    kept: int
    """What of that is still there at its end: state it has added, and its result."""

    @property
    def total(self) -> int:
        return self.weights + self.state + self.peak


@dataclass(frozen=True)
class Reading:
    latency: float
    """Seconds: the median."""
    low: float
    high: float
    """The median's interval: 95 of 100 such hold the true one."""
    repeats: int
    pace: float
    """Seconds of a fixed piece of work beside it, which tells whether the device was slow just then."""
    parts: Memory
    device: dict[str, Any]
    high_water: int | None = None
    """Bytes by which the process that held nothing but this model grew; None where it held others before."""

    @property
    def memory(self) -> int:
        """Bytes: weights, state and activations at their peak."""
        return self.parts.total

    @property
    def spread(self) -> float:
        return (self.high - self.low) / 2 / self.latency

    @property
    def noise(self) -> str | None:
        """What is wrong with a median that says nothing; None if it says something."""
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
        told = {name: value for name, value in data.items() if name != "memory"}
        return cls(**{**told, "parts": Memory(**data["parts"])})
