"""Gated linear units: one half of the inner width decides how much of the other half passes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from sublayer.nn.config import Count, Rate
from sublayer.nn.feedforward.activation import ACTIVATIONS, Activation
from sublayer.nn.linear import linear
from sublayer.nn.part import Part, Slot, Work
from sublayer.nn.scene import Scene


class Glu(Part):
    """W₂ (act(W x) · V x) (Shazeer 2020). The activation names the member:

    sigmoid GLU · relu ReGLU · gelu GEGLU · swish SwiGLU · linear LiGLU (bilinear).
    """

    class Config(Part.Config, tag="glu"):
        inner: Count | None = None
        """Width of each half; None: 8/3·dim, as many parameters as a dense one of 4·dim."""
        activation: Activation = "sigmoid"
        bias: bool = False
        dropout: Rate = 0.0
        """On the gated activations."""

        def width(self, dim: int) -> int:
            return 8 * dim // 3 if self.inner is None else self.inner

        def params(self, slot: Slot) -> int:
            F, D = self.width(slot.dim), slot.dim
            return 3 * D * F + (2 * F + D if self.bias else 0)

        def flops(self, slot: Slot, work: Work) -> int:
            return 2 * work.length * 3 * slot.dim * self.width(slot.dim)

        def activation_size(self, slot: Slot, work: Work, rows: int = 1) -> int:
            return rows * work.length * 2 * self.width(slot.dim)

    def __init__(self, config: Config, slot: Slot) -> None:
        super().__init__()
        inner = config.width(slot.dim)
        self.activation: Activation = config.activation
        self.act = ACTIVATIONS[config.activation]
        self.enter = linear(slot.dim, 2 * inner, config.bias)
        self.output = linear(inner, slot.dim, config.bias)
        self.drop = nn.Dropout(config.dropout) if config.dropout else nn.Identity()

    def forward(self, x_BLD: Float[Tensor, "B L D"], scene: Scene, state: Any = None) -> tuple[Tensor, None]:
        gate_BLF, up_BLF = self.enter(x_BLD).chunk(2, dim=-1)
        return self.output(self.drop(self.act(gate_BLF) * up_BLF)), None

    def before_activation(self) -> tuple[nn.Module, int]:
        """The gate's half."""
        return self.enter, self.enter.out_features // 2

    @contextmanager
    def linearized(self) -> Iterator[None]:
        act, self.act = self.act, torch.ones_like
        try:
            yield
        finally:
            self.act = act
