"""Looking back within buckets: new tokens see the last of their bucket, whether these are new or stored."""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor

from sublayer.nn import paths
from sublayer.nn.attention.bucketed import BUCKETS, by_slots, by_tiles
from sublayer.nn.attention.buckets import Grid, Hashed

FEW = 8
"""Queries for which the last keys of their buckets are looked up one by one; for more, the text is sorted."""


def enter(
    past: Hashed, k_BHLK: Tensor, v_BHLK: Tensor, bucket_BHRL: Tensor, valid_BL: Tensor | None, grid: Grid
) -> tuple[Int[Tensor, "B H R L"], Hashed]:
    """The codes of a segment's tokens, and what is stored after them."""
    code_BHRL, count_BHRn = grid.codes(bucket_BHRL, valid_BL, past.count_BHRn)
    return code_BHRL, past.after(k_BHLK, v_BHLK, code_BHRL, count_BHRn, grid)


def look_back(
    q_BHLK: Float[Tensor, "B H L K"],
    k_BHLK: Float[Tensor, "B H L K"],
    v_BHLK: Float[Tensor, "B H L K"],
    code_BHRL: Int[Tensor, "B H R L"],
    past: Hashed,
    grid: Grid,
    dropout: float,
) -> Float[Tensor, "B H L K"]:
    """Of a segment's tokens over those before them in their buckets."""
    if len(past.k) and q_BHLK.shape[2] <= FEW:
        return by_slots(q_BHLK, k_BHLK, v_BHLK, code_BHRL, past, grid, dropout)
    alive_BHRP = None
    if len(past.k):
        k_BHLK, v_BHLK = (torch.cat([old.value, x], dim=2) for old, x in ((past.k, k_BHLK), (past.v, v_BHLK)))
        old_BHRP = past.code.value.transpose(2, 3)
        code_BHRL = torch.cat([old_BHRP, code_BHRL], dim=-1)
        if old_BHRP.shape[-1] > grid.buckets * grid.seen:
            alive_BHRP = grid.alive(old_BHRP, past.count_BHRn)
    return look(q_BHLK, k_BHLK, v_BHLK, code_BHRL, alive_BHRP, grid, dropout)


def look(
    q_BHLK: Tensor,
    k_BHMK: Tensor,
    v_BHMK: Tensor,
    code_BHRM: Tensor,
    alive_BHRP: Tensor | None,
    grid: Grid,
    dropout: float,
) -> Tensor:
    """`by_tiles`, or what is faster."""
    call = q_BHLK, k_BHMK, v_BHMK, code_BHRM, alive_BHRP, grid, dropout
    path = paths.find(BUCKETS, *call)
    return by_tiles(*call) if path is None else path.run(*call)


def pairs(length: int, memory: int, rounds: int, grid: Grid, sorted_pairs: int) -> int:
    """Query–key pairs that are multiplied in each head. `memory`: tokens that are stored."""
    return length * (rounds * grid.seen + length) if memory and length <= FEW else sorted_pairs
