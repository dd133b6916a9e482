"""Retention: keys fade by a fixed factor per token."""

from __future__ import annotations

import torch
from torch import Tensor

from sublayer.nn.attention.kernel.base import View
from sublayer.nn.attention.kernel.recurrence import Sums, Terms
from sublayer.nn.attention.kernel.recurrent import Recurrent, of_tokens, padding
from sublayer.nn.part import Slot


class Retention(Recurrent):
    """y_i = norm(Σ_{j ≤ i} γ^(i−j) (q_i · k_j) v_j), γ = 1 − 2^(−5−h) in head h (Sun et al. 2023, eqs. 5 and 8).

    The norm is each head's own, by its root mean square and without weights. Positions are the model's choice; the
    paper's are rotary.
    """

    class Config(Recurrent.Config, tag="retention"):
        normed = False
        one_way = True

    fade_G: Tensor

    def __init__(self, config: Config, slot: Slot, heads: int, groups: int, head_dim: int) -> None:
        super().__init__(config, slot, heads, groups, head_dim)
        fade_G = torch.log1p(-torch.exp2(-5.0 - torch.arange(groups, dtype=torch.float64)))
        self.register_buffer("fade_G", fade_G.to(torch.get_default_dtype()), persistent=False)

    def terms(
        self, q_BHLK: Tensor, k_BGLK: Tensor, v_BGLK: Tensor, view: View, state: Sums | None
    ) -> tuple[Terms, None]:
        B, _, L, K = k_BGLK.shape
        fade_BGL = of_tokens(self.fade_G.to(k_BGLK.dtype).expand(B, L, -1), view)
        # The paper's 1/√K of queries is divided out by the norm; only what the norm adds has to grow by it.
        gain_BGL = padding(k_BGLK, view)
        return Terms(q_BHLK, k_BGLK, v_BGLK, fade_BGL=fade_BGL, gain_BGL=gain_BGL, eps=1e-6 * K), None
