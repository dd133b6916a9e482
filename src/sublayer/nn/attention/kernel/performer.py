"""Performer: softmax estimated by positive random features, in time linear in the length."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from sublayer.nn.attention.kernel.base import Load, View
from sublayer.nn.attention.kernel.random_features import RandomMatrix
from sublayer.nn.attention.kernel.recurrence import Sums, Terms
from sublayer.nn.attention.kernel.recurrent import Recurrent, unpadded
from sublayer.nn.config import Count
from sublayer.nn.part import Slot

FLOOR = 1e-3
"""Added to relu features, so that no weight is zero."""


class Performer(Recurrent):
    """φ(x)_f = exp(w_f · x − |x|²/2)/√m, x = q/K^¼ or k/K^¼, so that E[φ(q) · φ(k)] = exp(q · k/√K) (Choromanski et al.
    2021, lemma 1 and section 3); or φ(x) = relu(W x) + ε, their generalised attention.

    exp of large numbers is avoided by a largest exponent that is divided out again. For a query it is its own. For keys
    it is the largest so far, by which the sums fade where it grows: one over all keys would let the future be seen.
    """

    class Config(Recurrent.Config, tag="performer"):
        features: Count = 256
        """Random features of a query or key."""
        form: Literal["positive", "relu"] = "positive"
        """positive: an estimate of softmax."""
        draw: Literal["orthogonal", "independent"] = "orthogonal"
        redraw: Count | None = 1000
        """Steps of training after which features are drawn again; none: never."""

        def width(self, head_dim: int) -> int:
            return self.features

        def feature_flops(self, load: Load) -> int:
            return 2 * (load.heads + load.groups) * load.length * load.head_dim * self.features

        def state_size(self, heads: int, groups: int, head_dim: int) -> int:
            return super().state_size(heads, groups, head_dim) + (groups if self.form == "positive" else 0)

    config: Config  # pyright: ignore[reportIncompatibleVariableOverride]

    def __init__(self, config: Config, slot: Slot, heads: int, groups: int, head_dim: int) -> None:
        super().__init__(config, slot, heads, groups, head_dim)
        self.matrix = RandomMatrix(config.features, head_dim, config.redraw, config.draw == "independent")

    def terms(
        self, q_BHLK: Tensor, k_BGLK: Tensor, v_BGLK: Tensor, view: View, state: Sums | None
    ) -> tuple[Terms, Tensor | None]:
        w_FK = self.matrix().to(q_BHLK.dtype) * q_BHLK.shape[-1] ** -0.25
        if self.config.form == "relu":
            q_BHLF, k_BGLF = ((x @ w_FK.T).relu() + FLOOR for x in (q_BHLK, k_BGLK))
            return Terms(q_BHLF, unpadded(k_BGLF, view), v_BGLK), None
        q_BHLF, k_BGLF = exponents(q_BHLK, w_FK), exponents(k_BGLK, w_FK)
        q_BHLF = (q_BHLF - q_BHLF.detach().amax(-1, keepdim=True)).exp()
        own_BGL = k_BGLF.detach().amax(-1)
        if view.scene.valid_BL is not None:
            own_BGL = own_BGL.masked_fill(~view.scene.valid_BL[:, None], -torch.inf)
        if not view.pattern.causal:
            top_BG1 = own_BGL.amax(-1, keepdim=True)
            return Terms(q_BHLF, _below(k_BGLF, top_BG1, view), v_BGLK), None
        first_BG1 = torch.full_like(own_BGL[..., :1], -torch.inf) if state is None else state.more_BG[..., None]  # pyright: ignore[reportOptionalSubscript]
        top_BGX = torch.cat([first_BG1, own_BGL], dim=-1).cummax(-1).values
        # Before the first key there is nothing to fade.
        fade_BGL = (top_BGX[..., :-1] - top_BGX[..., 1:]).masked_fill(top_BGX[..., :-1].isinf(), 0)
        return Terms(q_BHLF, _below(k_BGLF, top_BGX[..., 1:], view), v_BGLK, fade_BGL), top_BGX[..., -1]


def exponents(x_BHLK: Tensor, w_FK: Tensor) -> Tensor:
    """w_f · x/K^¼ − |x/K^¼|²/2; w comes divided."""
    return x_BHLK @ w_FK.T - x_BHLK.square().sum(-1, keepdim=True) * (0.5 * x_BHLK.shape[-1] ** -0.5)


def _below(exponents_BGLF: Tensor, top_BGL: Tensor, view: View) -> Tensor:
    """exp(exponent − top); zeros on padding, where there may be no top yet."""
    return unpadded((exponents_BGLF - top_BGL.masked_fill(top_BGL.isinf(), 0)[..., None]).exp(), view)
