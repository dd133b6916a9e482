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
        """Dropout on the part's output."""

        def build(self, part: Part, slot: Slot) -> Residual:
            return self.owner(self, part, slot)

        def params(self, dim: int) -> int:
            """Parameters of the sublayer without its part."""
            raise NotImplementedError

        def flops(self, dim: int, length: int) -> int:
            return 0

        def entry(self) -> Norm.Config:
            """The norm between the stream and the part."""
            return NoNorm.Config()

        @property
        def sums(self) -> bool:
            """Whether the stream is the plain sum of the parts' outputs, whose initial scale is then 1/√depth."""
            return False

        @property
        def adds(self) -> bool:
            """Whether `join` is x + y and nothing else, so that x can be found again by subtracting the branch."""
            return self.sums

    def __init__(self, config: Residual.Config, part: Part, slot: Slot) -> None:
        super().__init__()
        self.part = part
        self.drop = nn.Dropout(config.dropout) if config.dropout else nn.Identity()

    def forward(
        self, x_BLD: Float[Tensor, "B L D"], scene: Scene, state: Any = None
    ) -> tuple[Float[Tensor, "B L D"], Any]:
        y_BLD, state = self.branch(x_BLD, scene, state)
        return self.join(x_BLD, y_BLD), state

    def branch(
        self, x_BLD: Float[Tensor, "B L D"], scene: Scene, state: Any = None
    ) -> tuple[Float[Tensor, "B L D"], Any]:
        """The part's output for x, dropout included, before it is joined to the stream (reversible stacks)."""
        y_BLD, state = self.part.forward_normed(self.entry, x_BLD, scene, state)
        return self.drop(y_BLD), state

    def join(self, x_BLD: Float[Tensor, "B L D"], y_BLD: Float[Tensor, "B L D"]) -> Float[Tensor, "B L D"]:
        """The stream x with the branch's output y."""
        raise NotImplementedError

    @property
    def entry(self) -> nn.Module:
        """The norm between the stream and the part."""
        return nn.Identity()

    def skip(self, x_BLD: Float[Tensor, "B L D"], scene: Scene, state: Any = None) -> Any:
        """The part's state after a segment whose output is not used."""
        return self.part.skip(self.entry, x_BLD, scene, state)

    def freeze(self, state: Any, scene: Scene) -> Any:
        """The part's state in the form for inference."""
        return self.part.freeze(self.entry, state, scene)

    def drawn(self) -> Residual | None:
        """The sublayer as it runs in this pass; None if it is left out (LayerDrop)."""
        return self
