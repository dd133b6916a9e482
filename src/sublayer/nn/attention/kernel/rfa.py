"""Random feature attention: softmax of unit vectors estimated by sines and cosines, with a gate that forgets."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from sublayer.nn.attention.kernel.base import Load, View
from sublayer.nn.attention.kernel.random_features import RandomMatrix
from sublayer.nn.attention.kernel.recurrence import Sums, Terms
from sublayer.nn.attention.kernel.recurrent import Recurrent, of_tokens, unpadded
from sublayer.nn.config import Count
from sublayer.nn.linear import linear
from sublayer.nn.part import Slot

LEAST = 0.1
"""What a query's weights sum to at least, on average over the keys: estimates may be negative. The same in training and
generation."""
SPREAD = 2**0.5
"""σ before anything is learned: then one key's weight, e^(−1) at least, is estimated as positive by a few features."""


class RFA(Recurrent):
    """φ(x) = [sin(w_1 · x) … sin(w_D · x), cos(w_1 · x) … cos(w_D · x)]/√D of q/|q| and k/|k|, w = w̃/σ, w̃ ~ N(0, I):
    E[φ(x) · φ(y)] = exp(−|x − y|²/2σ²), in proportion to exp(x · y/σ²) (Peng et al. 2021, theorem 1 and section 3).

    σ is learned, for each feature of each key head. With the gate, S_t = g_t S_{t−1} + (1 − g_t) φ(k_t) v_tᵀ and z_t
    alike, g_t = σ(w_g · x_t + b_g) (eq. 7).
    """

    class Config(Recurrent.Config, tag="rfa"):
        reads_input = True

        features: Count = 64
        """D, the number of random vectors; a query or key has 2D features."""
        gate: bool = False
        redraw: Count | None = 1
        """Steps of training after which the vectors are drawn again; none: never."""

        @property
        def one_way(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
            return self.gate

        def width(self, head_dim: int) -> int:
            return 2 * self.features

        def params(self, slot: Slot, heads: int, groups: int, head_dim: int) -> int:
            return groups * head_dim + ((slot.dim + 1) * groups if self.gate else 0)

        def feature_flops(self, load: Load) -> int:
            drawn = (load.heads + load.groups) * load.length * load.head_dim * self.features
            return 2 * (drawn + (load.length * load.dim * load.groups if self.gate else 0))

        def state_size(self, heads: int, groups: int, head_dim: int) -> int:
            return super().state_size(heads, groups, head_dim) + groups

    config: Config  # pyright: ignore[reportIncompatibleVariableOverride]

    def __init__(self, config: Config, slot: Slot, heads: int, groups: int, head_dim: int) -> None:
        super().__init__(config, slot, heads, groups, head_dim)
        self.matrix = RandomMatrix(config.features, head_dim, config.redraw, independent=True)
        self.log_sigma_GK = nn.Parameter(torch.full((groups, head_dim), math.log(SPREAD)))
        self.gate = linear(slot.dim, groups, bias=True) if config.gate else None

    def terms(
        self, q_BHLK: Tensor, k_BGLK: Tensor, v_BGLK: Tensor, view: View, state: Sums | None
    ) -> tuple[Terms, Tensor | None]:
        w_GFK = self.matrix().to(q_BHLK.dtype) / self.log_sigma_GK.exp()[:, None]
        q_BHLF = waves(q_BHLK, w_GFK.repeat_interleave(q_BHLK.shape[1] // len(w_GFK), dim=0))
        k_BGLF = unpadded(waves(k_BGLK, w_GFK), view)
        before_BG1 = 0.0 if state is None else state.more_BG[..., None]  # pyright: ignore[reportOptionalSubscript]
        if self.gate is None:
            count_BGL = before_BG1 + of_tokens(torch.ones_like(v_BGLK[..., 0].transpose(1, 2)), view).cumsum(-1)
            least_BGL = LEAST * (count_BGL if view.pattern.causal else count_BGL[..., -1:])
            return Terms(q_BHLF, k_BGLF, v_BGLK, least_BGL=least_BGL), count_BGL[..., -1]
        assert view.x_BLD is not None
        gate_BLG = self.gate(view.x_BLD.to(self.gate.weight.dtype))
        k_BGLF = k_BGLF * (-gate_BLG).sigmoid().transpose(1, 2)[..., None]
        fade_BGL = of_tokens(F.logsigmoid(gate_BLG), view)
        # Each token's 1 − g_t, faded, sum to 1 − Π g_t.
        total_BGL = before_BG1 + fade_BGL.cumsum(-1)
        return Terms(q_BHLF, k_BGLF, v_BGLK, fade_BGL, least_BGL=-LEAST * total_BGL.expm1()), total_BGL[..., -1]


def waves(x_BHLK: Tensor, w_HFK: Tensor) -> Tensor:
    """Sines and cosines of w · x/|x|."""
    at_BHLF = F.normalize(x_BHLK, dim=-1, eps=1e-6) @ w_HFK.transpose(-1, -2)
    return torch.cat([at_BHLF.sin(), at_BHLF.cos()], dim=-1) * w_HFK.shape[1] ** -0.5
