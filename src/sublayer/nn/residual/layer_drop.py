"""Whole sublayers left out at random in training."""

from __future__ import annotations

from typing import Annotated, Any

import torch
from jaxtyping import Float
from pydantic import Field
from torch import Tensor, nn

from sublayer.nn.part import Part, Slot
from sublayer.nn.residual.base import Residual
from sublayer.nn.residual.norm import Norm
from sublayer.nn.residual.normed import PreNorm
from sublayer.nn.scene import Scene


class LayerDrop(Residual):
    """In training, x instead of sublayer(x) with probability `rate` (Fan et al. 2020); the state advances anyway."""

    class Config(Residual.Config, tag="layer_drop"):
        rate: Annotated[float, Field(ge=0, le=1)] = 0.1
        inner: Residual.Config = PreNorm.Config()
        """The residual that may be left out."""

        def params(self, dim: int) -> int:
            return self.inner.params(dim)

        def flops(self, dim: int, length: int) -> int:
            return self.inner.flops(dim, length)

        def entry(self) -> Norm.Config:
            return self.inner.entry()

        @property
        def adds(self) -> bool:
            return self.inner.adds

    def __init__(self, config: Config, part: Part, slot: Slot) -> None:
        super().__init__(config, part, slot)
        self.rate = config.rate
        self.inner = config.inner.build(part, slot)
        del self.part  # the inner residual owns it

    def __getattr__(self, name: str) -> Any:
        return self.inner.part if name == "part" else super().__getattr__(name)

    def forward(
        self, x_BLD: Float[Tensor, "B L D"], scene: Scene, state: Any = None
    ) -> tuple[Float[Tensor, "B L D"], Any]:
        if self.drops():
            return x_BLD, self.skip(x_BLD, scene, state)
        return self.inner(x_BLD, scene, state)

    def branch(
        self, x_BLD: Float[Tensor, "B L D"], scene: Scene, state: Any = None
    ) -> tuple[Float[Tensor, "B L D"], Any]:
        if self.drops():
            return torch.zeros_like(x_BLD), self.skip(x_BLD, scene, state)
        return self.inner.branch(x_BLD, scene, state)

    def join(self, x_BLD: Float[Tensor, "B L D"], y_BLD: Float[Tensor, "B L D"]) -> Float[Tensor, "B L D"]:
        return self.inner.join(x_BLD, y_BLD)

    def drawn(self) -> Residual | None:
        return None if self.drops() else self.inner

    def drops(self) -> bool:
        """Whether it is left out, drawn at each call."""
        return self.training and bool(torch.rand(()) < self.rate)

    @property
    def entry(self) -> nn.Module:
        return self.inner.entry
