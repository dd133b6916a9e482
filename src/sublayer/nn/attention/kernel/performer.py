"""Performer: softmax estimated by positive random features, in time linear in the length."""

from __future__ import annotations

from typing import Literal

from torch import Tensor

from sublayer.nn.attention.kernel.base import Load, View
from sublayer.nn.attention.kernel.features import FeatureMap
from sublayer.nn.attention.kernel.random_features import RandomMatrix
from sublayer.nn.attention.kernel.recurrence import Sums, Terms
from sublayer.nn.attention.kernel.recurrent import Recurrent, padding
from sublayer.nn.attention.kernel.softmax import attend
from sublayer.nn.config import Count
from sublayer.nn.part import Slot
from sublayer.nn.position.none import NoPosition

FLOOR = 1e-3
"""Added to relu features, so that no weight is zero."""


class Positive(FeatureMap):
    """Exponents: w · x − |x|²/2√K, where w is divided by K^¼ and x is not."""

    native = "positive"
    exponents = True

    def __call__(self, x_BHLK: Tensor) -> Tensor:
        half_BHL1 = x_BHLK.square().sum(-1, keepdim=True) * (0.5 * x_BHLK.shape[-1] ** -0.5)
        return self.products(x_BHLK) - half_BHL1


class Relu(FeatureMap):
    """relu(w · x) + ε."""

    native = "relu"
    floor = FLOOR

    def __call__(self, x_BHLK: Tensor) -> Tensor:
        return self.products(x_BHLK).relu() + self.floor


class Performer(Recurrent):
    """φ(x)_f = exp(w_f · x − |x|²/2)/√m, x = q/K^¼ or k/K^¼, so that E[φ(q) · φ(k)] = exp(q · k/√K) (Choromanski et al.
    2021, lemma 1 and section 3); or φ(x) = relu(W x) + ε, their generalised attention.

    exp of large numbers is avoided by a largest exponent that is divided out again. For a query it is its own. For keys
    it is the largest so far, by which the sums fade where it grows (`FeatureMap.exponents`).
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
        w_GFK = (self.matrix().to(q_BHLK.dtype) * q_BHLK.shape[-1] ** -0.25)[None]
        features = (Positive if self.config.form == "positive" else Relu)(w_GFK)
        return Terms(q_BHLK, k_BGLK, v_BGLK, features, gain_BGL=padding(k_BGLK, view)), None

    def exact(self, q_BHLK: Tensor, k_BGMK: Tensor, v_BGMK: Tensor, view: View) -> Tensor | None:
        if self.config.form == "relu":
            return None
        return attend(q_BHLK, k_BGMK, v_BGMK, view.sight, NoPosition(), view.scene)
