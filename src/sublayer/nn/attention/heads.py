"""Head counts and sizes, shared by every multi-head part."""

from __future__ import annotations

from typing import Literal

from jaxtyping import Float
from torch import Tensor

from sublayer.nn.config import Count, Rate
from sublayer.nn.part import Part, Slot


class Heads(Part):
    """Abstract: a part with H query heads of size K on G key/value heads."""

    class Config(Part.Config):
        heads: Count = 8
        """H, query heads."""
        kv_heads: Count | None = None
        """G, key/value heads, each serving heads/G queries; None: as many as heads. 1 is multi-query."""
        head_dim: Count | None = None
        """K, size of a head; None: dim/heads."""
        bias: bool = True
        """On all four projections."""
        dropout: Rate = 0.0
        """On the attention weights."""

        def sizes(self, dim: int) -> tuple[int, int, int]:
            """H, G, K for a model of this width; ValueError where they do not fit."""
            groups = self.heads if self.kv_heads is None else self.kv_heads
            if self.heads % groups:
                raise ValueError(
                    f"kv_heads={groups} does not divide heads={self.heads}; use one of {divisors(self.heads)}"
                )
            if self.head_dim is None and dim % self.heads:
                raise ValueError(
                    f"heads={self.heads} does not divide dim={dim}; use one of {divisors(dim, 64)}, or set head_dim"
                )
            return self.heads, groups, self.head_dim or dim // self.heads

        @property
        def attends(self) -> bool:
            return True

        def head_dim_in(self, dim: int) -> int:
            return self.sizes(dim)[2]

        def check(self, slot: Slot) -> None:
            self.sizes(slot.dim)


class Looking(Heads):
    """Abstract: a part that is told whether its queries look back or both ways."""

    class Config(Heads.Config):
        look: Literal["back", "both"] = "back"
        """Whether a query sees what stands before it, or all."""

        @property
        def both_ways(self) -> bool:
            return self.look == "both"

        @property
        def view(self) -> str:
            return f"look={self.look}"

        def turned(self, causal: bool) -> str:
            return f"look={'back' if causal else 'both'}"

        @property
        def reach(self) -> int | None:
            return 0 if self.both_ways else None


def divisors(number: int, most: int | None = None) -> str:
    """`1, 2, 4, 8`, for a remedy."""
    return ", ".join(str(d) for d in range(1, min(number, most or number) + 1) if number % d == 0)


def split_heads(x_BLZ: Float[Tensor, "B L Z"], heads: int) -> Float[Tensor, "B H L K"]:
    return x_BLZ.unflatten(-1, (heads, -1)).transpose(1, 2)


def join_heads(y_BHLK: Float[Tensor, "B H L K"]) -> Float[Tensor, "B L Z"]:
    return y_BHLK.transpose(1, 2).flatten(2)
