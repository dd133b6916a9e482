"""A band's queries in tiles of equal size: the form in which PyTorch goes along it, and in which cost counts it."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Int
from torch import Tensor
from torch.nn import functional as F

from sublayer.nn.attention.bands import Band
from sublayer.nn.attention.pattern.base import Bands, Pattern, bands_of

LEAST, MOST = 16, 64
"""Queries that share their keys. Where each sees few, many would meet mostly keys that they do not see."""


@dataclass(frozen=True)
class Tiles:
    """A band's queries in tiles of equal size, each with as many keys as the widest sees."""

    query_nT: Int[Tensor, "n T"]
    """Indices of queries; −1 is padding."""
    key_nX: Int[Tensor, "n X"]
    seen_nTX: Bool[Tensor, "n T X"]

    @classmethod
    def of(cls, band: Band) -> Tiles:
        lo_nT, hi_nT, first_n, width = _edges(band)
        x_nX = first_n[:, None] + torch.arange(width)
        seen_nTX = (x_nX[:, None] >= lo_nT[..., None]) & (x_nX[:, None] < hi_nT[..., None])
        x_nX = x_nX.clamp(max=int(band.hi.max()) - 1)
        queries = torch.arange(len(band.lo)) if band.queries is None else band.queries.long()
        query_nT = F.pad(queries, (0, lo_nT.numel() - len(queries)), value=-1).view(lo_nT.shape)
        return cls(query_nT, x_nX if band.keys is None else band.keys.long()[x_nX], seen_nTX)


def pairs(pattern: Pattern.Config, heads: int, length: int, memory: int, start: int) -> int:
    """Query–key pairs that are multiplied in all heads, masked ones included. `start`: tokens before the queries, of
    which the last `memory` are there."""
    bands = bands_of(pattern, heads, length, memory, start)
    along = None if bands is None else work(bands, heads)
    whole = heads * length * (memory + length)
    return along if along is not None and 2 * along <= whole else whole


def work(bands: Bands, heads: int) -> int:
    """Query–key pairs that are multiplied in all heads."""
    return sum(band.once("work", _pairs) * (heads if band.heads is None else sum(band.heads)) for band in bands)


def tiles_of(band: Band) -> Tiles:
    return band.once("tiles", Tiles.of)


def _pairs(band: Band) -> int:
    lo_nT, _, _, width = _edges(band)
    return lo_nT.numel() * width


def _edges(band: Band) -> tuple[Tensor, Tensor, Tensor, int]:
    """Intervals by tile, the first key that any query of a tile sees, and how far the widest tile goes from there."""
    width = int((band.hi - band.lo).clamp(min=0).float().mean()) if len(band.lo) else 0
    T = min(MOST, max(LEAST, 1 << max(0, width - 1).bit_length()))
    n = -(-len(band.lo) // T)
    lo_nT, hi_nT = (F.pad(x.long(), (0, n * T - len(x))).view(n, T) for x in (band.lo, band.hi))
    empty_nT, far = lo_nT >= hi_nT, torch.iinfo(torch.long).max
    end_n = hi_nT.masked_fill(empty_nT, 0).amax(1)
    first_n = torch.minimum(lo_nT.masked_fill(empty_nT, far).amin(1), end_n)
    return lo_nT, hi_nT, first_n, int((end_n - first_n).max())
