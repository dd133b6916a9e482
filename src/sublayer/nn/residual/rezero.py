"""A learned scalar, initially zero, on each part's output."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn

from sublayer.nn.part import Part, Slot
from sublayer.nn.residual.base import Residual
from sublayer.nn.residual.norm import NoNorm, Norm


class ReZero(Residual):
    """x + α·part(norm(x)), α = 0 at the start (Bachlechner et al. 2020); plain, or with a norm before the part."""

    class Config(Residual.Config, tag="rezero"):
        norm: Norm.Config = NoNorm.Config()

        def params(self, dim: int) -> int:
            return self.norm.params(dim) + 1

        def entry(self) -> Norm.Config:
            return self.norm

    def __init__(self, config: Config, part: Part, slot: Slot) -> None:
        super().__init__(config, part, slot)
        self.norm = config.norm.build(slot.dim)
        self.alpha = nn.Parameter(torch.zeros(()))

    def join(self, x_BLD: Float[Tensor, "B L D"], y_BLD: Float[Tensor, "B L D"]) -> Float[Tensor, "B L D"]:
        return x_BLD + self.alpha * y_BLD

    @property
    def entry(self) -> nn.Module:
        return self.norm
