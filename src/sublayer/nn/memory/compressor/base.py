"""Compressor: how tokens that leave a memory become slots of the compressed memory, `rate` tokens a slot.

Letters beside those of the legend: N groups of tokens, T tokens of a group, S slots made of a group.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from sublayer.nn.config import Config


@dataclass(frozen=True)
class Eviction:
    """What one pass compresses, for a loss: nothing in it but `new` has a gradient."""

    old_BNTD: Float[Tensor, "B N T D"]
    """Groups of tokens, as the sublayer received them."""
    new_BNSD: Float[Tensor, "B N S D"]
    """The slots made of each group."""
    whole_BN: Bool[Tensor, "B N"] | None
    """False where a row has no such group, since rows are padded differently; None: all have."""
    valid_BL: Bool[Tensor, "#B L"] | None
    """False where a query is padding; None if none is."""
    read: Callable[[Tensor, Tensor | None], Tensor]
    """Content-based attention of the segment's queries on some inputs (B, M, D), of which (B, M) are real."""


class Compressor(nn.Module):
    """Abstract: slots_NSD = compressor(x_NTD, usage_NT)."""

    class Config(Config, family="compressor"):
        by_usage: ClassVar[bool] = False
        """Whether it must know how much attention each token got; then it takes tokens as they are (`chosen`)."""

        @property
        def slots(self) -> int:
            """Number of slots that are made at one time, of `rate` times as many tokens."""
            return 1

        def build(self, dim: int, rate: int) -> Compressor:
            return self.owner(self, dim, rate)

        def params(self, dim: int, rate: int) -> int:
            return 0

        def flops(self, dim: int, rate: int) -> int:
            """Matmul work of one group; that of a loss is not counted."""
            return 0

    def __init__(self, config: Compressor.Config, dim: int, rate: int) -> None:
        super().__init__()
        self.config, self.dim, self.rate = config, dim, rate

    def forward(self, x_NTD: Float[Tensor, "N T D"], usage_NT: Float[Tensor, "N T"] | None) -> Float[Tensor, "N S D"]:
        """The slots of each group, in the order of the tokens. usage_NT: attention mass of each token, if asked for."""
        raise NotImplementedError

    def chosen(self, usage_NT: Float[Tensor, "N T"]) -> Int[Tensor, "N S"]:
        """Which tokens of its group the slots are, if it goes by usage."""
        raise NotImplementedError

    def loss(self, moved: Eviction) -> Float[Tensor, ""] | None:
        """What trains its parameters; None if it has none to train."""
        return None

    def by_slot(self, x_NTD: Float[Tensor, "N T D"]) -> Float[Tensor, "N S R D"]:
        """The `rate` tokens of each slot."""
        return x_NTD.unflatten(1, (-1, self.rate))
