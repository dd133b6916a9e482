"""The slow, obvious twin of kernel.py: one row and one query at a time, the softmax written out.

It asks the position for one query's bias at a time, so no skewing, gathering across queries or masking trick of the
fast path is repeated here.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from sublayer.nn.attention.pattern import Sight
from sublayer.nn.attention.span import Span
from sublayer.nn.position.base import Position, distances
from sublayer.nn.scene import Scene


def attend(
    q_BHLK: Float[Tensor, "B H L K"],
    k_BGMK: Float[Tensor, "B G M K"],
    v_BGMK: Float[Tensor, "B G M K"],
    sight: Sight,
    position: Position,
    scene: Scene,
    table: Tensor | None = None,
    dropout: float = 0.0,
    span: Span | None = None,
) -> Float[Tensor, "B H L K"]:
    """softmax(q kᵀ/√K + bias) v, where `sight` allows; a span's mask multiplies weights, which sum to one again."""
    if dropout:
        raise ValueError("the reference has no dropout; compare in eval mode")
    B, _, L, _ = q_BHLK.shape
    rows = []
    for b in range(B):
        queries = [_one(b, a, q_BHLK, k_BGMK, v_BGMK, sight, position, scene, span) for a in range(L)]
        rows.append(torch.stack(queries, dim=1))
    return torch.stack(rows)


def _one(
    b: int,
    a: int,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    sight: Sight,
    position: Position,
    scene: Scene,
    span: Span | None,
) -> Float[Tensor, "H K"]:
    """Query `a` of row `b`, on all keys up to the last it may see by construction of the segment."""
    H, L, M = q.shape[1], q.shape[2], k.shape[2]
    memory = M - L
    groups = H // k.shape[1]
    seen_HM = _seen(b, a, L, M, sight, q.device)
    alone = _alone(b, a, scene, memory)
    q_1H1K = q[b : b + 1, :, a : a + 1]
    bias = position.bias(q_1H1K, alone, M - 1, q.shape[-1] ** -0.5, None)
    turned_HK = position.query(q_1H1K, alone)[0, :, 0]
    scores_HM = torch.stack([(turned_HK[h] * k[b, h // groups]).sum(-1) for h in range(H)]) * q.shape[-1] ** -0.5
    scores_HM = scores_HM if bias is None else scores_HM + bias[0, :, 0]
    scores_HM = position.weigh(scores_HM[None, :, None], alone, M - 1)[0, :, 0]
    hidden_HM = scores_HM.masked_fill(~seen_HM, -torch.inf)
    blind_H1 = ~seen_HM.any(-1, keepdim=True)
    exp_HM = torch.where(seen_HM, (scores_HM - hidden_HM.amax(-1, keepdim=True).masked_fill(blind_H1, 0)).exp(), 0.0)
    weights_HM = exp_HM / exp_HM.sum(-1, keepdim=True).masked_fill(blind_H1, 1)
    if span is not None:
        faded_HM = weights_HM * span.mask(distances(alone, M - 1), scene)[0, :, 0]
        weights_HM = faded_HM / faded_HM.sum(-1, keepdim=True).masked_fill(blind_H1, 1)
    y_HK = torch.stack([(weights_HM[h, :, None] * v[b, h // groups]).sum(0) for h in range(H)])
    extra = position.value(weights_HM[None, :, None], alone, M - 1)
    return y_HK if extra is None else y_HK + extra[0, :, 0]


def _seen(b: int, a: int, L: int, M: int, sight: Sight, device: torch.device) -> Tensor:
    if sight.mask_BHLM is not None:
        mask = sight.mask_BHLM
        return mask[b if mask.shape[0] > 1 else 0, :, a if mask.shape[2] > 1 else 0].expand(-1, M)
    return (torch.arange(M, device=device) <= (a + M - L if sight.causal else M))[None]


def _alone(b: int, a: int, scene: Scene, memory: int) -> Scene:
    """The scene of one query: the same positions for keys, written out as a ragged history of M − 1 and itself last.

    The query is not the last key: what the hooks get is each key's position and the query's, nothing about order.
    """
    j_BM = scene.positions(memory)
    j_1M = j_BM[b if j_BM.shape[0] > 1 else 0][None]
    i_B = scene.i_BL[b if scene.i_BL.shape[0] > 1 else 0]
    return _QueryScene(i_BL=i_B[None, a : a + 1], past_i_BP=j_1M, past_valid_BP=torch.ones_like(j_1M, dtype=torch.bool))


class _QueryScene(Scene):
    """One query on given keys."""

    def positions(self, memory: int) -> Tensor:
        assert self.past_i_BP is not None
        return self.past_i_BP if memory else self.i_BL
