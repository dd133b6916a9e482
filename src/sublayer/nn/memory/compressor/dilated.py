"""Slots by dilated convolutions: each sees more tokens than the ones it stands for."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from sublayer.nn.config import Count
from sublayer.nn.linear import DEVIATION
from sublayer.nn.memory.compressor.learned import Learned

KERNEL = 3
"""Taps of each dilated convolution."""


class Dilated(Learned):
    """x ← x + GELU(conv₃(x)) with growing dilation, then a convolution with kernel and stride `rate`.

    The paper names dilated convolutions and gives no sizes (Rae et al. 2019, section 3.2); these are ours. Tokens
    beyond the group count as zeros.
    """

    class Config(Learned.Config, tag="dilated"):
        group: Count = 4
        """Slots made at one time, of group·rate tokens."""
        dilations: tuple[Count, ...] = (1, 2)
        """Distance between the taps of each convolution."""

        @property
        def slots(self) -> int:
            return self.group

        def params(self, dim: int, rate: int) -> int:
            return super().params(dim, rate) + len(self.dilations) * (KERNEL * dim * dim + dim)

        def flops(self, dim: int, rate: int) -> int:
            return super().flops(dim, rate) + len(self.dilations) * 2 * self.group * rate * KERNEL * dim * dim

    def __init__(self, config: Config, dim: int, rate: int) -> None:
        super().__init__(config, dim, rate)
        self.dilations = config.dilations
        shapes = [(dim, dim, KERNEL) for _ in config.dilations]
        self.taps = nn.ParameterList(nn.Parameter(torch.empty(shape).normal_(std=DEVIATION)) for shape in shapes)
        self.shifts = nn.ParameterList(nn.Parameter(torch.zeros(dim)) for _ in shapes)

    def forward(self, x_NTD: Float[Tensor, "N T D"], usage_NT: Tensor | None) -> Float[Tensor, "N S D"]:
        x_NDT = x_NTD.transpose(1, 2)
        for d, taps, shift_D in zip(self.dilations, self.taps, self.shifts, strict=True):
            x_NDT = x_NDT + F.gelu(F.conv1d(x_NDT, taps, shift_D, padding=d, dilation=d))
        return super().forward(x_NDT.transpose(1, 2), usage_NT)
