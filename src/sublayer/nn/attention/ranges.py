"""Ranges: the keys that one query sees, as arithmetic progressions of positions.

A window is one range, a column of a strided pattern another. One query is too little work for tiles of bands; a short
list of ranges can be written down anew for every token.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise

import torch
from jaxtyping import Int
from torch import Tensor

Ranges = tuple[range, ...]


def disjoint(ranges: Iterable[range]) -> Ranges:
    """The same numbers, each in one range only."""
    found: list[range] = []
    # Fine steps first: of a coarser range they cut off an end or a middle, which leaves ranges.
    for one in sorted((one for one in ranges if one), key=lambda one: one.step):
        rest = [one]
        for other in found:
            rest = [piece for part in rest for piece in _without(part, other)]
        found += rest
    return tuple(found)


def _without(one: range, other: range) -> list[range]:
    """What of `one` is not in `other`, whose step is not larger."""
    if one[-1] < other.start or other[-1] < one.start:
        return [one]
    if one.step % other.step:
        return [range(n, n + 1) for n in one if n not in other]
    if (one.start - other.start) % other.step:
        return [one]
    return [part for part in (before(one, other.start), since(one, other[-1] + 1)) if part]


def before(one: range, end: int) -> range:
    """Its numbers below `end`."""
    return one[: _count_below(one, end)]


def since(one: range, first: int) -> range:
    """Its numbers from `first` on."""
    return one[_count_below(one, first) :]


def _count_below(one: range, end: int) -> int:
    return max(0, -(-(end - one.start) // one.step))


def shifted(one: range, by: int) -> range:
    return range(one.start + by, one.stop + by, one.step)


def slots(tokens: Iterable[range], first: int, far: Int[Tensor, " F"] | None) -> list[range]:
    """Where these tokens are stored: those from `first` on one after the other, behind the `far` ones. Tokens that are
    not stored are left out."""
    count = 0 if far is None else len(far)
    near = [shifted(one, count - first) for token in tokens if (one := since(token, first))]
    if far is None or not count:
        return near
    early = [one for token in tokens if (one := before(token, first))]
    if sum(map(len, early)) == count:  # every key seen is stored, so these are all of them
        return [range(count), *near]
    return [*_stored(early, far), *near]


def _stored(tokens: Sequence[range], far: Tensor) -> list[range]:
    if not tokens:
        return []
    t = torch.cat([torch.arange(one.start, one.stop, one.step, device=far.device) for one in tokens])
    at = torch.searchsorted(far, t).clamp(max=len(far) - 1)
    at = at[far[at] == t].sort().values
    ends = (at.diff() > 1).nonzero().flatten().tolist()
    edges = [0, *(end + 1 for end in ends), len(at)]
    return [range(int(at[a]), int(at[b - 1]) + 1) for a, b in pairwise(edges) if a < b]


def indices(ranges: Iterable[range]) -> Int[Tensor, " X"]:
    return torch.cat([torch.arange(one.start, one.stop, one.step, device="cpu") for one in ranges])
