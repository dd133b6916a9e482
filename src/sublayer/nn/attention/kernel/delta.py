"""The delta rule: a key's value replaces what the sums held for it."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from sublayer.nn.attention.kernel.base import Load, View
from sublayer.nn.attention.kernel.features import FeatureMap
from sublayer.nn.attention.kernel.recurrence import Sums, Terms
from sublayer.nn.attention.kernel.recurrent import Recurrent, of_tokens
from sublayer.nn.linear import linear
from sublayer.nn.part import Slot

FASTEST, SLOWEST = 0.1, 0.001
"""What heads forget of a token before anything is learned: from the first head to the last."""


class Direction(FeatureMap):
    """x/|x|."""

    native = "unit"

    def __call__(self, x_BHLK: Tensor) -> Tensor:
        return F.normalize(x_BHLK, dim=-1, eps=1e-6)


class Delta(Recurrent):
    """S_t = a_t S_{t−1} + b_t k_t (v_t − a_t S_{t−1}ᵀ k_t)ᵀ, y_t = norm(S_tᵀ q_t) (Yang et al. 2024; with the gate
    a_t, Yang et al. 2025, eq. 10).

    b_t = σ(W_b x_t), a_t = exp(−e^A softplus(W_a x_t + c)); queries and keys are of length 1; the norm is each head's
    own, by its root mean square and without weights.
    """

    class Config(Recurrent.Config, tag="delta"):
        normed = False
        one_way = True
        corrects = True
        reads_input = True

        gate: bool = True
        """Whether the sums fade."""

        def params(self, slot: Slot, heads: int, groups: int, head_dim: int) -> int:
            return slot.dim * groups + (slot.dim * groups + 2 * groups if self.gate else 0)

        def feature_flops(self, load: Load) -> int:
            return 2 * load.length * load.dim * load.groups * (2 if self.gate else 1)

    def __init__(self, config: Config, slot: Slot, heads: int, groups: int, head_dim: int) -> None:
        super().__init__(config, slot, heads, groups, head_dim)
        self.strength = linear(slot.dim, groups, bias=False)
        self.fade = linear(slot.dim, groups, bias=False) if config.gate else None
        if config.gate:
            step_G = torch.linspace(math.log(FASTEST), math.log(SLOWEST), groups).exp()
            self.rate_G = nn.Parameter(torch.zeros(groups))
            self.start_G = nn.Parameter(step_G.expm1().log())  # the inverse of softplus

    def terms(
        self, q_BHLK: Tensor, k_BGLK: Tensor, v_BGLK: Tensor, view: View, state: Sums | None
    ) -> tuple[Terms, None]:
        assert view.x_BLD is not None
        x_BLD = view.x_BLD.to(self.strength.weight.dtype)
        strength_BGL, fade_BGL = of_tokens(self.strength(x_BLD).sigmoid(), view), None
        if self.fade is not None:
            fade_BGL = of_tokens(-self.rate_G.exp() * F.softplus(self.fade(x_BLD) + self.start_G), view)
        changes = {"fade_BGL": fade_BGL, "strength_BGL": strength_BGL, "eps": 1e-6}
        return Terms(q_BHLK, k_BGLK, v_BGLK, Direction(), **changes), None
