"""Softmax attention. `reference.py` is the slow twin of `attend`.

Facts this file relies on: SDPA's `is_causal` is aligned to the top left, wrong with a cache, so it is used only without
one; a row that may see nothing gives zeros.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

from sublayer.nn import paths
from sublayer.nn.attention import reference
from sublayer.nn.attention.kernel.base import Kernel, View
from sublayer.nn.attention.pattern import Pattern, Sight
from sublayer.nn.attention.span import Span
from sublayer.nn.memory import KeyValues, Memory
from sublayer.nn.position.base import Position, distances
from sublayer.nn.position.none import NoPosition
from sublayer.nn.scene import Scene


class Softmax(Kernel):
    """softmax(q kᵀ/√K + bias) v (Vaswani et al. 2017, eq. 1)."""

    class Config(Kernel.Config, tag="softmax"):
        by_bands = True
        recalls = True
        crosses = True

        def honours(self, position: Position.Config) -> bool:
            return True

        def check(self, pattern: Pattern.Config, memory: Memory.Config, span: Span.Config) -> None:
            """All positions."""

    def forward(
        self,
        q_BHLK: Float[Tensor, "B H L K"],
        k_BGMK: Float[Tensor, "B G M K"],
        v_BGMK: Float[Tensor, "B G M K"],
        view: View,
        state: None = None,
    ) -> tuple[Float[Tensor, "B H L K"], None]:
        path = paths.find(BANDS, q_BHLK, k_BGMK, v_BGMK, view)
        if path is not None:
            return path.run(q_BHLK, k_BGMK, v_BGMK, view), None
        given = view.sight, view.position, view.scene, view.table, view.dropout, view.span
        return attend(q_BHLK, k_BGMK, v_BGMK, *given), None

    def attention_weights(self, q_BHLK: Tensor, k_BGMK: Tensor, view: View) -> Float[Tensor, "B H L M"]:
        memory, scale, scene = view.remembered, q_BHLK.shape[-1] ** -0.5, view.scene
        bias_BHLM = view.position.bias(q_BHLK, scene, memory, scale, view.table)
        fade_BHLM = None if view.span is None else view.span.fade(distances(scene, memory), scene, q_BHLK.dtype)
        q_BHLK = view.position.query(q_BHLK, scene)
        return _weights(q_BHLK, k_BGMK, view.sight, view.position, scene, bias_BHLM, fade_BHLM)

    def reference(
        self, q_BHLK: Tensor, k_BGMK: Tensor, v_BGMK: Tensor, view: View, state: None = None
    ) -> tuple[Tensor, None]:
        given = view.sight, view.position, view.scene, view.table, view.dropout, view.span
        return reference.attend(q_BHLK, k_BGMK, v_BGMK, *given), None

    def across(self, q_BHLK: Tensor, stored: KeyValues, source: Scene, dropout: float) -> Tensor:
        valid_BS = source.valid_BL
        seen = Sight(None if valid_BS is None else valid_BS[:, None, None, :])
        # Of the queries, not of the source: `attend` counts the keys before them from the lengths of both.
        queries = Scene(torch.arange(q_BHLK.shape[2], device=q_BHLK.device)[None])
        return attend(q_BHLK, stored.k.value, stored.v.value, seen, NoPosition(), queries, dropout=dropout)


BANDS = "attention along bands"
"""The job of paths that follow a pattern's bands: (q, k, v, view), then run(q, k, v, view)."""
DENSE = "dense attention"
"""The job of paths for attention without bias or mask: (q, k, v, dropout), then run(q, k, v, causal, dropout)."""


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
    """softmax(q kᵀ/√K + bias + log m) v, where `sight` allows; queries come before `position.query`."""
    if paths.slow():
        return reference.attend(q_BHLK, k_BGMK, v_BGMK, sight, position, scene, table, dropout, span)
    memory = k_BGMK.shape[2] - q_BHLK.shape[2]
    scale = q_BHLK.shape[-1] ** -0.5
    bias_BHLM = position.bias(q_BHLK, scene, memory, scale, table)
    fade_BHLM = None if span is None else span.fade(distances(scene, memory), scene, q_BHLK.dtype)
    q_BHLK = position.query(q_BHLK, scene)
    if position.acts_on_weights:
        return _attend_openly(q_BHLK, k_BGMK, v_BGMK, sight, position, scene, bias_BHLM, fade_BHLM, dropout)
    if fade_BHLM is None:
        mask, causal = _added(bias_BHLM, sight, scene, position)
    else:
        mask, causal = _masked(fade_BHLM if bias_BHLM is None else fade_BHLM + bias_BHLM, sight), False
    path = paths.find(DENSE, q_BHLK, k_BGMK, v_BGMK, dropout) if mask is None else None
    if path is not None:
        return path.run(q_BHLK, k_BGMK, v_BGMK, causal, dropout)
    grouped = k_BGMK.shape[1] != q_BHLK.shape[1]
    return F.scaled_dot_product_attention(
        q_BHLK, k_BGMK, v_BGMK, mask, dropout, causal, scale=scale, enable_gqa=grouped
    )


def _added(bias_BHLM: Tensor | None, sight: Sight, scene: Scene, position: Position) -> tuple[Tensor | None, bool]:
    """Bias and mask as the one term that SDPA adds to the scores; a bias that all layers share is masked once."""
    if bias_BHLM is None:
        return sight.mask_BHLM, sight.causal
    if position.bias_is_constant:
        return scene.once(("masked", id(bias_BHLM), sight), lambda: _masked(bias_BHLM, sight)), False
    return _masked(bias_BHLM, sight), False


def _masked(scores_BHLM: Tensor, sight: Sight) -> Tensor:
    """Scores with −∞ where nothing may be seen."""
    if sight.causal:
        above_LM = torch.ones(scores_BHLM.shape[-2:], dtype=torch.bool, device=scores_BHLM.device).triu(1)
        return scores_BHLM.masked_fill(above_LM, -torch.inf)
    return scores_BHLM if sight.mask_BHLM is None else scores_BHLM.masked_fill(~sight.mask_BHLM, -torch.inf)


def _attend_openly(
    q_BHLK: Tensor,
    k_BGMK: Tensor,
    v_BGMK: Tensor,
    sight: Sight,
    position: Position,
    scene: Scene,
    bias_BHLM: Tensor | None,
    fade_BHLM: Tensor | None,
    dropout: float,
) -> Tensor:
    """With the weights as a matrix, for positions that re-weigh scores or add to values."""
    memory = k_BGMK.shape[2] - q_BHLK.shape[2]
    weights_BHLM = _weights(q_BHLK, k_BGMK, sight, position, scene, bias_BHLM, fade_BHLM)
    weights_BHLM = F.dropout(weights_BHLM, dropout) if dropout else weights_BHLM
    y_BHLK = weights_BHLM @ v_BGMK.repeat_interleave(q_BHLK.shape[1] // k_BGMK.shape[1], dim=1)
    extra_BHLK = position.value(weights_BHLM, scene, memory)
    return y_BHLK if extra_BHLK is None else y_BHLK + extra_BHLK


def _weights(
    q_BHLK: Tensor,
    k_BGMK: Tensor,
    sight: Sight,
    position: Position,
    scene: Scene,
    bias_BHLM: Tensor | None,
    fade_BHLM: Tensor | None,
) -> Float[Tensor, "B H L M"]:
    """Queries come with their position applied."""
    k_BHMK = k_BGMK.repeat_interleave(q_BHLK.shape[1] // k_BGMK.shape[1], dim=1)
    scores_BHLM = (q_BHLK * q_BHLK.shape[-1] ** -0.5) @ k_BHMK.transpose(-1, -2)
    scores_BHLM = scores_BHLM if bias_BHLM is None else scores_BHLM + bias_BHLM
    scores_BHLM = position.weigh(scores_BHLM, scene, k_BHMK.shape[2] - q_BHLK.shape[2])
    scores_BHLM = _masked(scores_BHLM if fade_BHLM is None else scores_BHLM + fade_BHLM, sight)
    weights_BHLM = scores_BHLM.softmax(dim=-1)
    if sight.mask_BHLM is not None:  # a row may see nothing: −∞ everywhere, whose softmax is NaN
        weights_BHLM = weights_BHLM.masked_fill(scores_BHLM.isneginf().all(-1, keepdim=True), 0)
    return weights_BHLM
