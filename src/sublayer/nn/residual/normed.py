"""A norm and a sum around the part: the norm before it, off the shortcut; or after the sum, on the shortcut."""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor, nn

from sublayer.nn.part import Part, Slot
from sublayer.nn.residual.add import Add, Sum
from sublayer.nn.residual.base import Residual
from sublayer.nn.residual.norm import LayerNorm, Norm


class Normed(Residual):
    """Abstract: a norm, and a way to add."""

    class Config(Residual.Config):
        norm: Norm.Config = LayerNorm.Config()
        add: Add.Config = Sum.Config()

        def params(self, dim: int) -> int:
            return self.norm.params(dim) + self.add.params(dim)

        def flops(self, dim: int, length: int) -> int:
            return self.add.flops(dim, length)

    def __init__(self, config: Config, part: Part, slot: Slot) -> None:
        super().__init__(config, part, slot)
        self.norm = config.norm.build(slot.dim)
        self.add = config.add.build(slot.dim)


class PreNorm(Normed):
    """add(x, part(norm(x))): the shortcut is clean from the first sublayer to the last (Baevski & Auli 2019; GPT-2)."""

    class Config(Normed.Config, tag="pre_norm"):
        def entry(self) -> Norm.Config:
            return self.norm

        @property
        def sums(self) -> bool:
            return self.add.sums

    def join(self, x_BLD: Float[Tensor, "B L D"], y_BLD: Float[Tensor, "B L D"]) -> Float[Tensor, "B L D"]:
        return self.add(x_BLD, y_BLD)

    @property
    def entry(self) -> nn.Module:
        return self.norm


class PostNorm(Normed):
    """norm(add(x, part(x))) (Vaswani et al. 2017, section 3.1)."""

    class Config(Normed.Config, tag="post_norm"):
        pass

    def join(self, x_BLD: Float[Tensor, "B L D"], y_BLD: Float[Tensor, "B L D"]) -> Float[Tensor, "B L D"]:
        return self.norm(self.add(x_BLD, y_BLD))
