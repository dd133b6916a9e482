"""Linear attention: a product of features instead of softmax."""

from __future__ import annotations

from torch import Tensor
from torch.nn import functional as F

from sublayer.nn.attention.kernel.base import View
from sublayer.nn.attention.kernel.features import FeatureMap
from sublayer.nn.attention.kernel.recurrence import Sums, Terms
from sublayer.nn.attention.kernel.recurrent import Recurrent, padding


class EluPlusOne(FeatureMap):
    native = "elu"

    def __call__(self, x_BHLK: Tensor) -> Tensor:
        return F.elu(x_BHLK) + 1


class Linear(Recurrent):
    """Weights in proportion to φ(q) · φ(k), φ(x) = elu(x) + 1 (Katharopoulos et al. 2020, eq. 7)."""

    class Config(Recurrent.Config, tag="linear"):
        pass

    def terms(
        self, q_BHLK: Tensor, k_BGLK: Tensor, v_BGLK: Tensor, view: View, state: Sums | None
    ) -> tuple[Terms, None]:
        return Terms(q_BHLK, k_BGLK, v_BGLK, EluPlusOne(), gain_BGL=padding(k_BGLK, view)), None
