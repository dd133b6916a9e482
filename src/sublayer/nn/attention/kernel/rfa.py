"""Random feature attention: softmax of unit vectors estimated by sines and cosines, with a gate that forgets."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from sublayer.nn.attention.kernel.base import Load, View
from sublayer.nn.attention.kernel.features import FeatureMap
from sublayer.nn.attention.kernel.random_features import RandomMatrix
from sublayer.nn.attention.kernel.recurrence import Sums, Terms
from sublayer.nn.attention.kernel.recurrent import Recurrent, of_tokens, padding
from sublayer.nn.attention.kernel.softmax import attend
from sublayer.nn.config import Count
from sublayer.nn.linear import linear
from sublayer.nn.part import Slot
from sublayer.nn.position.none import NoPosition

LEAST = 0.1
"""What a query's weights sum to at least, on average over the keys: estimates may be negative. The same in training and
generation."""
SPREAD = 2**0.5
"""σ before anything is learned: then one key's weight, e^(−1) at least, is estimated as positive by a few features."""


class Waves(FeatureMap):
    """Sines and cosines of w · x/|x|, over √D."""

    native = "waves"

    def __call__(self, x_BHLK: Tensor) -> Tensor:
        at_BHLD = self.products(F.normalize(x_BHLK, dim=-1, eps=1e-6))
        return torch.cat([at_BHLD.sin(), at_BHLD.cos()], dim=-1) * at_BHLD.shape[-1] ** -0.5


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
        features = Waves(self.matrix().to(q_BHLK.dtype) / self.log_sigma_GK.exp()[:, None])
        gain_BGL = padding(k_BGLK, view)
        before_BG1 = 0.0 if state is None else state.more_BG[..., None]  # pyright: ignore[reportOptionalSubscript]
        if self.gate is None:
            count_BGL = before_BG1 + of_tokens(torch.ones_like(v_BGLK[..., 0].transpose(1, 2)), view).cumsum(-1)
            least_BGL = LEAST * (count_BGL if view.pattern.causal else count_BGL[..., -1:])
            terms = Terms(q_BHLK, k_BGLK, v_BGLK, features, gain_BGL=gain_BGL, least_BGL=least_BGL)
            return terms, count_BGL[..., -1]
        assert view.x_BLD is not None
        gate_BLG = self.gate(view.x_BLD.to(self.gate.weight.dtype))
        forgotten_BGL = F.logsigmoid(-gate_BLG).transpose(1, 2)
        gain_BGL = forgotten_BGL if gain_BGL is None else forgotten_BGL + gain_BGL
        fade_BGL = of_tokens(F.logsigmoid(gate_BLG), view)
        # Each token's 1 − g_t, faded, sum to 1 − Π g_t.
        total_BGL = before_BG1 + fade_BGL.cumsum(-1)
        least_BGL = -LEAST * total_BGL.expm1()
        return Terms(q_BHLK, k_BGLK, v_BGLK, features, fade_BGL, gain_BGL, least_BGL=least_BGL), total_BGL[..., -1]

    def exact(self, q_BHLK: Tensor, k_BGMK: Tensor, v_BGMK: Tensor, view: View) -> Tensor:
        """Softmax of −|q/|q| − k/|k||²/2σ², faded, and of what the gate lets in."""
        terms, _ = self.terms(q_BHLK, k_BGMK, v_BGMK, view, None)
        sigma_G1K, each = self.log_sigma_GK.exp()[:, None], q_BHLK.shape[1] // k_BGMK.shape[1]
        q_BHLK = F.normalize(q_BHLK, dim=-1, eps=1e-6) / sigma_G1K.repeat_interleave(each, dim=0)
        k_BGMK = F.normalize(k_BGMK, dim=-1, eps=1e-6) / sigma_G1K
        # The same for all keys, and so left out: −|q|²/2, and how much has faded before the query.
        own_BGM = -0.5 * k_BGMK.square().sum(-1)
        own_BGM = own_BGM if terms.fade_BGL is None else own_BGM - terms.fade_BGL.cumsum(-1)
        own_BGM = own_BGM if terms.gain_BGL is None else own_BGM + terms.gain_BGL
        q_BHLZ, k_BGMZ = F.pad(q_BHLK, (0, 1), value=1.0), torch.cat([k_BGMK, own_BGM[..., None]], dim=-1)
        q_BHLZ = q_BHLZ * q_BHLZ.shape[-1] ** 0.5  # by which attention divides
        return attend(q_BHLZ, k_BGMZ, F.pad(v_BGMK, (0, 1)), view.sight, NoPosition(), view.scene)[..., :-1]
