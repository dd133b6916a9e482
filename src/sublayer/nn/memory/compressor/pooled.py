"""Slots that are the mean, or the largest value of each feature, of their tokens. Nothing is learned."""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor

from sublayer.nn.memory.compressor.base import Compressor


class MeanPool(Compressor):
    """Mean pooling, kernel and stride `rate` (Rae et al. 2019, section 3.2)."""

    class Config(Compressor.Config, tag="mean"):
        pass

    def forward(self, x_NTD: Float[Tensor, "N T D"], usage_NT: Tensor | None) -> Float[Tensor, "N S D"]:
        return self.by_slot(x_NTD).mean(2)


class MaxPool(Compressor):
    """Max pooling, kernel and stride `rate` (Rae et al. 2019, section 3.2)."""

    class Config(Compressor.Config, tag="max"):
        pass

    def forward(self, x_NTD: Float[Tensor, "N T D"], usage_NT: Tensor | None) -> Float[Tensor, "N S D"]:
        return self.by_slot(x_NTD).amax(2)
