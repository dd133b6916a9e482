"""Clusters of equal size: each centroid takes the queries and the keys that are nearest to it, and these meet."""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from sublayer.nn.attention.bucketed import take
from sublayer.nn.attention.kernel import attend
from sublayer.nn.attention.pattern import Sight
from sublayer.nn.position.none import NoPosition
from sublayer.nn.scene import Scene


def balanced(
    q_BHLK: Float[Tensor, "B H L K"],
    k_BHLK: Float[Tensor, "B H L K"],
    v_BHLK: Float[Tensor, "B H L K"],
    to_query_BHCL: Float[Tensor, "B H C L"],
    to_key_BHCL: Float[Tensor, "B H C L"],
    scene: Scene,
    window: int,
    dropout: float,
) -> Float[Tensor, "B H L K"]:
    """What a query gets from each centroid that takes it, in the mean; zeros if none does. `to_…`: how near each token
    is to each centroid."""
    window = min(window, q_BHLK.shape[2])
    query_BHCW = nearest(to_query_BHCL, scene.valid_BL, window)
    key_BHCW = nearest(to_key_BHCL, scene.valid_BL, window)
    seen = Sight()
    if scene.valid_BL is not None:  # a row with fewer real tokens than the window takes padding too
        real_BHCW = scene.valid_BL[:, None, None].expand(*key_BHCW.shape[:3], -1).gather(-1, key_BHCW)
        seen = Sight(real_BHCW.flatten(0, 1)[:, :, None])
    # Each centroid is a head of its own.
    q, k, v = (take(x, at).flatten(0, 1) for x, at in ((q_BHLK, query_BHCW), (k_BHLK, key_BHCW), (v_BHLK, key_BHCW)))
    y_BHCWK = attend(q, k, v, seen, NoPosition(), scene, dropout=dropout).unflatten(0, q_BHLK.shape[:2])
    at_BHXK = query_BHCW.flatten(2)[..., None].expand(-1, -1, -1, v_BHLK.shape[-1])
    total_BHLK = v_BHLK.new_zeros(v_BHLK.shape).scatter_add(2, at_BHXK, y_BHCWK.flatten(2, 3))
    taken_BHL = v_BHLK.new_zeros(v_BHLK.shape[:3])
    taken_BHL = taken_BHL.scatter_add(2, query_BHCW.flatten(2), taken_BHL.new_ones(1).expand_as(at_BHXK[..., 0]))
    return total_BHLK / taken_BHL.clamp(min=1)[..., None]


def levels(dtype: torch.dtype) -> int:
    """Steps of nearness. Tokens that are alike are equally near wherever they stand, whatever the last bits are."""
    return 2 ** (torch.finfo(dtype).bits // 2)


def nearest(
    to_BHCL: Float[Tensor, "B H C L"], valid_BL: Bool[Tensor, "#B L"] | None, window: int
) -> Int[Tensor, "B H C W"]:
    """The tokens nearest to each centroid, in the order of the text; padding only where there are no others."""
    length, most = to_BHCL.shape[-1], levels(to_BHCL.dtype)
    rank_BHCL = (to_BHCL * most).round_().long()
    if valid_BL is not None:
        rank_BHCL.masked_fill_(~valid_BL[:, None, None], -2 * most)
    # Of equal ones the first: a number for each token, since `topk` chooses among equal ones as it likes.
    rank_BHCL.mul_(length).sub_(torch.arange(length, device=to_BHCL.device))
    return rank_BHCL.topk(window, dim=-1).indices.sort(dim=-1).values
