"""Pace: how fast the device is at a moment, as the seconds of each component of the reference load.

A model is slowed by what slows its kind of work: arithmetic, reading weights from memory, or overhead. Its
slowdown is the geometric mean of the components' slowdowns, weighted by how the model spends its time; so a time at one
pace can be scaled to any other.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, fields
from statistics import median


@dataclass(frozen=True)
class Components:
    """One number for each component of the reference load."""

    products: float
    """Matrix products on weights that stay in the caches."""
    stream: float
    """Weights read from memory."""
    overhead: float
    """Small operations, some of them shared by all threads: mostly calls, and threads that wait for each other."""

    def __iter__(self) -> Iterator[float]:
        return iter((self.products, self.stream, self.overhead))

    def dump(self) -> dict[str, float]:
        return asdict(self)


class Pace(Components):
    """In seconds."""

    @classmethod
    def median(cls, paces: Sequence[Pace]) -> Pace:
        return cls(*(median(column) for column in zip(*paces, strict=True)))

    def slowdown(self, quiet: Pace, shares: Shares) -> float:
        """How many times slower than at the `quiet` pace work of these shares is."""
        return math.exp(sum(share * math.log(now / then) for share, now, then in zip(shares, self, quiet, strict=True)))


class Shares(Components):
    """Of a pass's time; they sum to 1."""

    @classmethod
    def of(cls, seconds: float, products: float, stream: float) -> Shares:
        """products, stream: what the arithmetic and the weights of the pass would take by themselves; they may overlap.
        What they do not account for is overhead."""
        overhead = max(seconds - products - stream, 0.0)
        whole = products + stream + overhead
        return cls(products / whole, stream / whole, overhead / whole)


COMPONENTS = tuple(one.name for one in fields(Components))


def of_this_load(stored: object) -> bool:
    """Whether a stored pace is of today's reference load; earlier versions had other components."""
    return isinstance(stored, dict) and set(stored) == set(COMPONENTS)
