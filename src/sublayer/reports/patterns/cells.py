"""Cells: a rectangle of queries and keys in squares, each with the share of its pairs that is seen."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional as F

Seen = Callable[[Tensor, Tensor], Tensor]
PAIRS = 2**22
"""Looked at in one go."""


@dataclass(frozen=True, eq=False)
class Cells:
    """R rows of queries and as many columns of keys."""

    length: int
    side: int
    """Tokens along a cell; the last row and column may have fewer."""
    share_RR: Float[Tensor, "R R"]
    keys_L: Int[Tensor, " L"]
    """How many keys each query sees."""
    back: int
    """How far the farthest key stands before its query, and after it."""
    ahead: int

    @property
    def seen(self) -> float:
        """Of all pairs, those beyond the triangle included."""
        return int(self.keys_L.sum()) / self.length**2

    @property
    def keys(self) -> float:
        """Keys that a query sees, in the mean."""
        return int(self.keys_L.sum()) / self.length


def cells(seen: Seen, length: int, most: int) -> Cells:
    """Of `length` tokens, in at most so many rows; what is seen is asked pair by pair."""
    side = side_of(length, most)
    rows, j_L = -(-length // side), torch.arange(length)
    count_RR, keys_L = torch.zeros(rows, rows, dtype=torch.long), torch.zeros(length, dtype=torch.long)
    back = ahead = 0
    for i_T in j_L.split(max(1, PAIRS // length)):
        seen_TL = seen(i_T[:, None], j_L).expand(len(i_T), length)
        keys_L[i_T] = seen_TL.sum(-1)
        count_TR = F.pad(seen_TL.int(), (0, rows * side - length)).unflatten(1, (rows, side)).sum(-1)
        count_RR.index_add_(0, i_T // side, count_TR)
        any_T = seen_TL.any(-1)
        first_T, last_T = seen_TL.int().argmax(-1), length - 1 - seen_TL.flip(-1).int().argmax(-1)
        back = max(back, int((i_T - first_T).masked_fill(~any_T, 0).max()))
        ahead = max(ahead, int((last_T - i_T).masked_fill(~any_T, 0).max()))
    size_R = (length - torch.arange(rows) * side).clamp(max=side)
    return Cells(length, side, count_RR / (size_R[:, None] * size_R), keys_L, back, ahead)


def side_of(length: int, most: int) -> int:
    """Tokens of a cell: few enough for the room; where it costs no more than half of it, a divisor of the length, so
    that cells and the blocks of a pattern begin at the same tokens."""
    least = -(-length // most)
    return next((side for side in range(least, 2 * least + 1) if length % side == 0), least)
