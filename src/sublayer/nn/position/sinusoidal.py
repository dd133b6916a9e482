"""Sinusoids of geometrically spaced wavelengths, added to the token vectors."""

from __future__ import annotations

import math

import torch
from jaxtyping import Float, Int
from torch import Tensor

from sublayer.nn.position.base import Position
from sublayer.nn.scene import Scene


def sinusoid(i: Int[Tensor, "*I"], dim: int, dtype: torch.dtype) -> Float[Tensor, "*I D"]:
    """sin of all wavelengths, then cos of all: the layout of Transformer-XL and tensor2tensor."""
    rate_E = torch.exp(torch.arange(0, dim, 2, device=i.device, dtype=torch.float64) * (-math.log(10000.0) / dim))
    angle = i[..., None].to(torch.float64) * rate_E
    return torch.cat([angle.sin(), angle.cos()], dim=-1)[..., :dim].to(dtype)


class Sinusoidal(Position):
    """p_i = [sin(i·w), cos(i·w)], w_e = 10000^(−2e/D) (Vaswani et al. 2017, section 3.5).

    Deviations from the paper: sines and cosines stand in two halves, not interleaved; a fixed permutation of features.
    """

    class Config(Position.Config, tag="sinusoidal"):
        def build(self, dim: int, head_dim: int) -> Position:
            return Sinusoidal()

    def embed(self, x_BLD: Float[Tensor, "B L D"], scene: Scene) -> Float[Tensor, "B L D"]:
        return x_BLD + sinusoid(scene.i_BL, x_BLD.shape[-1], x_BLD.dtype)
