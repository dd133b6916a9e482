"""Norms, which hold the residual stream in range."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from sublayer.nn.config import Config, Positive


class Norm(nn.Module):
    """D → D, each token by itself."""

    class Config(Config, family="norm"):
        eps: Positive = 1e-5

        def build(self, dim: int) -> nn.Module:
            raise NotImplementedError

        def params(self, dim: int) -> int:
            raise NotImplementedError


class NoNorm(Norm):
    """x as it is."""

    class Config(Norm.Config, tag="none"):
        def build(self, dim: int) -> nn.Module:
            return nn.Identity()

        def params(self, dim: int) -> int:
            return 0


class LayerNorm(Norm):
    """(x − mean)/√(var + ε)·g + b (Ba et al. 2016)."""

    class Config(Norm.Config, tag="layer"):
        def build(self, dim: int) -> nn.Module:
            return nn.LayerNorm(dim, eps=self.eps)

        def params(self, dim: int) -> int:
            return 2 * dim


class RMSNorm(Norm):
    """x/√(mean(x²) + ε)·g (Zhang & Sennrich 2019)."""

    class Config(Norm.Config, tag="rms"):
        def build(self, dim: int) -> nn.Module:
            return RMSNorm(self, dim)

        def params(self, dim: int) -> int:
            return dim

    def __init__(self, config: RMSNorm.Config, dim: int) -> None:
        super().__init__()
        self.eps = config.eps
        self.weight = nn.Parameter(torch.ones(dim))

    def forward(self, x: Tensor) -> Tensor:
        return nn.functional.rms_norm(x, (x.shape[-1],), self.weight, self.eps)
