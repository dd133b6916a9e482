"""Bands: what the queries of a pass see, in the form that work follows.

A band is an order of queries, an order of keys, and for each query one interval in the order of keys. A window is one
band; the columns of a strided pattern are one in which tokens are ordered by their remainder. What a pattern lets a
query see is a disjoint union of bands: attention goes band by band and merges the outputs by the logs of their sums.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, wraps
from typing import Any, ParamSpec, TypeVar

import torch
from jaxtyping import Int, UInt8
from torch import Tensor

T = TypeVar("T")
P = ParamSpec("P")
ROWS = 24
"""Queries of a tile at most, as in native.c."""
JUMP = 32
"""A tile ends where the next query's interval begins or ends this many keys elsewhere, or before."""


def on_cpu(make: Callable[P, T]) -> Callable[P, T]:
    """What it makes is on the CPU, also while a model is built or tried on another device."""

    @wraps(make)
    def made(*args: P.args, **options: P.kwargs) -> T:
        with torch.device("cpu"):
            return make(*args, **options)

    return made


@dataclass(frozen=True, eq=False)
class Band:
    """Equal only to itself."""

    lo: Int[Tensor, " Q"]
    hi: Int[Tensor, " Q"]
    """For each query in its order, the interval [lo, hi) that it sees of the keys in theirs."""
    queries: Int[Tensor, " Q"] | None = None
    """Their order, which may leave some out; None: as they come."""
    keys: Int[Tensor, " X"] | None = None
    heads: tuple[bool, ...] | None = None
    """For each head whether the band is one of its; None: of all."""
    _once: dict[str, Any] = field(default_factory=dict)

    def once(self, key: str, make: Callable[[Band], T]) -> T:
        """A value that all passes share, computed by the first that asks."""
        if key not in self._once:
            self._once[key] = on_cpu(make)(self)
        return self._once[key]

    @cached_property
    @on_cpu
    def tiles(self) -> Int[Tensor, " T"]:
        """Where tiles of queries begin, and where the last one ends: neighbours whose intervals nearly coincide."""
        count = len(self.lo)
        lo, hi = self.lo.long(), self.hi.long()
        far = [((x[1:] - x[:-1] > JUMP) | (x[1:] < x[:-1])) for x in (lo, hi)]
        starts = torch.cat([torch.zeros(1, dtype=torch.long), (far[0] | far[1]).nonzero().flatten() + 1])
        ends = torch.cat([starts[1:], torch.tensor([count])])
        n = torch.arange(count)
        nth = n - starts.repeat_interleave(ends - starts)
        return torch.cat([n[nth % ROWS == 0], torch.tensor([count])]).int()

    def pairs(self) -> int:
        """Query–key pairs that are multiplied, those beyond an interval's edge included."""
        tiles = self.tiles.long()
        tile = torch.repeat_interleave(torch.arange(len(tiles) - 1), tiles.diff())
        lo, hi, none = self.lo.long(), self.hi.long(), self.lo >= self.hi
        big = torch.iinfo(torch.long).max
        first = torch.full((len(tiles) - 1,), big).scatter_reduce(0, tile, lo.masked_fill(none, big), "amin")
        end = torch.zeros(len(tiles) - 1, dtype=torch.long).scatter_reduce(0, tile, hi.masked_fill(none, 0), "amax")
        return int(((end - first).clamp(min=0) * tiles.diff()).sum())

    @cached_property
    def rises(self) -> bool:
        """Whether each query's keys come in the order of the text: then those from a given one on are an interval."""
        if self.keys is None:
            return True
        falls_X = torch.cat([torch.zeros(1, dtype=torch.long), (self.keys.diff() <= 0).cumsum(0)])
        mine = self.lo < self.hi
        return bool((falls_X[self.lo[mine].long()] == falls_X[self.hi[mine].long() - 1]).all())

    def nth(self, key_Q: Tensor) -> Tensor:
        """Where in each query's interval the keys from a given one on begin; of a band that rises."""
        if self.keys is None:
            return torch.minimum(torch.maximum(key_Q.int(), self.lo), torch.maximum(self.lo, self.hi))
        lo_Q, hi_Q = self.lo.long(), torch.maximum(self.lo, self.hi).long()
        for _ in range(int((hi_Q - lo_Q).max()).bit_length() if len(lo_Q) else 0):
            middle_Q = (lo_Q + hi_Q) // 2
            below_Q = (lo_Q < hi_Q) & (self.keys[middle_Q.clamp(max=len(self.keys) - 1)] < key_Q)
            lo_Q, hi_Q = torch.where(below_Q, middle_Q + 1, lo_Q), torch.where(below_Q, hi_Q, middle_Q)
        return lo_Q.int()

    def but(self, lo_Q: Tensor, hi_Q: Tensor) -> Band:
        """The same orders with other intervals."""
        return Band(lo_Q.int(), hi_Q.int(), self.queries, self.keys, self.heads).only(lo_Q < hi_Q)

    def only(self, mine_Q: Tensor) -> Band:
        """Without the queries for which this is False."""
        if mine_Q.all():
            return self
        queries = mine_Q.nonzero().flatten().int() if self.queries is None else self.queries[mine_Q]
        return Band(self.lo[mine_Q], self.hi[mine_Q], queries, self.keys, self.heads)

    def of_heads(self, heads: tuple[bool, ...]) -> Band:
        return replace(self, heads=None if all(heads) else heads, _once={})

    @property
    def content(self) -> Hashable:
        """Equal for bands of equal orders and intervals."""
        parts = (self.lo, self.hi, self.queries, self.keys)
        return tuple(None if x is None else x.numpy().tobytes() for x in parts)

    def count(self, length: int, attended: int) -> UInt8[Tensor, "L M"]:
        """How often it lets each query see each key."""
        j_X = torch.arange(attended if self.keys is None else len(self.keys))
        seen_QX = (j_X >= self.lo[:, None]) & (j_X < self.hi[:, None])
        count_LM = torch.zeros(length, attended, dtype=torch.uint8)
        i_Q = torch.arange(length) if self.queries is None else self.queries.long()
        j_X = j_X if self.keys is None else self.keys.long()
        where = i_Q[:, None].expand_as(seen_QX), j_X.expand_as(seen_QX)
        return count_LM.index_put_(where, seen_QX.to(torch.uint8), accumulate=True)


def count(bands: Sequence[Band], heads: int, length: int, attended: int) -> UInt8[Tensor, "H L M"]:
    """How often each pair of each head is in a band: the slow, obvious form."""
    counts_HLM = torch.zeros(heads, length, attended, dtype=torch.uint8)
    for band in bands:
        mine = torch.tensor(band.heads or (True,) * heads)
        counts_HLM[mine] += band.count(length, attended)
    return counts_HLM


def dense(length: int, memory: int, causal: bool) -> Band:
    """Every query sees all keys, or those up to its own."""
    hi = torch.arange(memory + 1, memory + length + 1) if causal else torch.full((length,), memory + length)
    return Band(torch.zeros(length, dtype=torch.int32), hi.int())


def before(band: Band, memory: int, at_L: Tensor) -> Iterator[Band]:
    """What a band has of the keys before `at`, which each query of the segment has for itself, counted from the first
    key."""
    if not band.rises:
        yield from keep(band, memory, lambda i, j: j < at_L[i - memory])
        return
    yield band.but(band.lo, band.nth(_of_queries(band, at_L)))


def without(band: Band, memory: int, lo_L: Tensor, hi_L: Tensor) -> Iterator[Band]:
    """What a band has beside the keys [lo, hi), which each query of the segment has for itself: those before them, and
    those after."""
    if not band.rises:
        yield from keep(band, memory, lambda i, j: (j < lo_L[i - memory]) | (j >= hi_L[i - memory]))
        return
    lo_Q, hi_Q = _of_queries(band, lo_L), _of_queries(band, hi_L)
    none_Q = lo_Q >= hi_Q
    yield band.but(band.lo, torch.where(none_Q, band.hi, band.nth(lo_Q)))
    yield band.but(torch.where(none_Q, band.hi, band.nth(hi_Q)), band.hi)


def _of_queries(band: Band, x_L: Tensor) -> Tensor:
    return x_L if band.queries is None else x_L[band.queries.long()]


def keep(band: Band, memory: int, seen: Callable[[Tensor, Tensor], Tensor]) -> Iterator[Band]:
    """The pairs of a band for which `seen(i, j)` holds, i and j counted from the first key. Each is asked for, so this
    takes as long as attention itself.

    The n-th run of each query's kept keys is its interval in the n-th band."""
    i_Q = (torch.arange(len(band.lo)) if band.queries is None else band.queries.long()) + memory
    width_Q = (band.hi - band.lo).long().clamp(min=0)
    runs: list[tuple[Tensor, Tensor, Tensor, Tensor]] = []
    for part in _shares(width_Q):
        q_P = torch.arange(part.start, part.stop).repeat_interleave(width_Q[part])
        nth_P = torch.arange(len(q_P)) - (width_Q[part].cumsum(0) - width_Q[part]).repeat_interleave(width_Q[part])
        x_P = band.lo[q_P] + nth_P
        kept_P = seen(i_Q[q_P], x_P if band.keys is None else band.keys[x_P].long())
        alone = torch.zeros(1, dtype=torch.bool)
        before_P = torch.cat([alone, kept_P[:-1]]) & (nth_P > 0)
        after_P = torch.cat([kept_P[1:], alone]) & (nth_P + 1 < width_Q[q_P])
        first, last = (kept_P & ~before_P).nonzero().flatten(), (kept_P & ~after_P).nonzero().flatten()
        q_R = q_P[first]
        which_R = torch.arange(len(q_R)) - torch.searchsorted(q_R, q_R)
        runs.append((q_R, which_R, x_P[first], x_P[last] + 1))
    if not runs:
        return
    q_R, which_R, lo_R, hi_R = (torch.cat(column) for column in zip(*runs, strict=True))
    for n in range(int(which_R.max()) + 1 if len(which_R) else 0):
        mine = which_R == n
        queries = q_R[mine].int() if band.queries is None else band.queries[q_R[mine]]
        yield Band(lo_R[mine].int(), hi_R[mine].int(), queries, band.keys, band.heads)


def _shares(width_Q: Tensor, most: int = 2**18) -> Iterator[slice]:
    """Queries in shares of about so many pairs, so that memory does not grow with the text."""
    share_Q, first = width_Q.cumsum(0) // most, 0
    for count in share_Q.unique_consecutive(return_counts=True)[1].tolist():
        yield slice(first, first + count)
        first += count
