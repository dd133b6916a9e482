"""Residual: one part made into a sublayer, by a norm and a way to add."""

from __future__ import annotations

from typing import Any

from jaxtyping import Float
from torch import Tensor, nn

from sublayer.nn.config import Config, Rate
from sublayer.nn.part import Part, Slot
from sublayer.nn.residual.norm import NoNorm, Norm
from sublayer.nn.scene import Scene


class Residual(nn.Module):
    """Abstract: holds the part; `forward` has the part's own signature, so sublayers and parts nest."""

    class Config(Config, family="residual"):
        dropout: Rate = 0.0
        """On the part's output."""

        def build(self, part: Part, slot: Slot) -> Residual:
            return self.owner(self, part, slot)

        def params(self, dim: int) -> int:
            """Of the sublayer without its part."""
            raise NotImplementedError

        def flops(self, dim: int, length: int) -> int:
            return 0

        def entry(self) -> Norm.Config:
            """The norm between the stream and the part."""
            return NoNorm.Config()

    def __init__(self, config: Residual.Config, part: Part, slot: Slot) -> None:
        super().__init__()
        self.part = part
        self.drop = nn.Dropout(config.dropout) if config.dropout else nn.Identity()

    def forward(
        self, x_BLD: Float[Tensor, "B L D"], scene: Scene, state: Any = None
    ) -> tuple[Float[Tensor, "B L D"], Any]:
        raise NotImplementedError

    @property
    def entry(self) -> nn.Module:
        """The norm between the stream and the part."""
        return nn.Identity()

    def skip(self, x_BLD: Float[Tensor, "B L D"], scene: Scene, state: Any = None) -> Any:
        """The part's state after a segment whose output nobody wants."""
        return self.part.skip(self.entry(x_BLD), scene, state)
