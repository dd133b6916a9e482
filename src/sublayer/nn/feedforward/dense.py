"""The feed-forward of the first Transformer: two matrices with an activation between."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from jaxtyping import Float
from torch import Tensor, nn

from sublayer.nn import paths
from sublayer.nn.config import Count, Rate
from sublayer.nn.feedforward.activation import ACTIVATIONS, Activation
from sublayer.nn.linear import linear
from sublayer.nn.part import Part, Slot, Work
from sublayer.nn.scene import Scene

FEEDFORWARD = "feedforward"
"""The job of paths for a whole feed-forward: (part, norm or None, x), for `serves` and for `run`."""


class Dense(Part):
    """W₂ act(W₁ x + b₁) + b₂ (Vaswani et al. 2017, eq. 2)."""

    class Config(Part.Config, tag="dense"):
        inner: Count | None = None
        """Width between the matrices; None: 4·dim."""
        activation: Activation = "relu"
        bias: bool = True
        dropout: Rate = 0.0
        """On the activations."""

        def width(self, dim: int) -> int:
            return 4 * dim if self.inner is None else self.inner

        def params(self, slot: Slot) -> int:
            F, D = self.width(slot.dim), slot.dim
            return 2 * D * F + (F + D if self.bias else 0)

        def flops(self, slot: Slot, work: Work) -> int:
            return 2 * work.length * 2 * slot.dim * self.width(slot.dim)

        def activation_size(self, slot: Slot, work: Work, rows: int = 1) -> int:
            return rows * work.length * self.width(slot.dim)

    def __init__(self, config: Config, slot: Slot) -> None:
        super().__init__()
        inner = config.width(slot.dim)
        self.activation: Activation = config.activation
        self.enter = linear(slot.dim, inner, config.bias)
        self.output = linear(inner, slot.dim, config.bias)
        self.drop = nn.Dropout(config.dropout) if config.dropout else nn.Identity()

    def forward(self, x_BLD: Float[Tensor, "B L D"], scene: Scene, state: Any = None) -> tuple[Tensor, None]:
        path = paths.find(FEEDFORWARD, self, None, x_BLD)
        if path is not None:
            return path.run(self, None, x_BLD), None
        return self.output(self.drop(ACTIVATIONS[self.activation](self.enter(x_BLD)))), None

    def forward_normed(
        self, norm: nn.Module, x_BLD: Float[Tensor, "B L D"], scene: Scene, state: Any = None
    ) -> tuple[Tensor, None]:
        path = paths.find(FEEDFORWARD, self, norm, x_BLD)
        return self(norm(x_BLD), scene, state) if path is None else (path.run(self, norm, x_BLD), None)

    def path(self, mode: paths.Mode) -> paths.Choice:
        return paths.report(FEEDFORWARD, self, mode)

    def before_activation(self) -> tuple[nn.Module, int]:
        return self.enter, self.enter.out_features

    @contextmanager
    def linearized(self) -> Iterator[None]:
        activation, self.activation = self.activation, "linear"
        try:
            yield
        finally:
            self.activation = activation
