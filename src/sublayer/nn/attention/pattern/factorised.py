"""Attention in two steps, so that any token is reached through another (Child et al. 2019)."""

from __future__ import annotations

from typing import Literal

from pydantic import model_validator

from sublayer.nn.attention.pattern.base import Pattern
from sublayer.nn.attention.pattern.basic import Causal, Window
from sublayer.nn.attention.pattern.chosen import Global
from sublayer.nn.attention.pattern.combined import ByLayer, Combined, PerHead, Union
from sublayer.nn.attention.pattern.local import BlockLocal
from sublayer.nn.attention.pattern.spaced import Dilated
from sublayer.nn.config import Count

Use = Literal["merged", "by_layer", "per_head"]
WAYS: dict[Use, type[Union.Config] | type[ByLayer.Config] | type[PerHead.Config]] = {
    "merged": Union.Config,
    "by_layer": ByLayer.Config,
    "per_head": PerHead.Config,
}


class Strided(Combined):
    """The last `stride` tokens, and every `stride`-th before them (Child et al. 2019, section 4.3): for images."""

    class Config(Combined.Config, tag="strided"):
        stride: Count = 128
        use: Use = "merged"
        """Both in each head, one after the other by layer, or each in half of the heads."""

        def spelled(self) -> Pattern.Config:
            near, columns = Window.Config(size=self.stride), Dilated.Config(of=Causal.Config(), by=self.stride)
            return WAYS[self.use](members=(near, columns))

        def check_length(self, length: int) -> None:
            _check_stride(self.stride, length)


class Fixed(Combined):
    """The tokens of one's own block, and the last `summary` of every block before (Child et al. 2019): for text."""

    class Config(Combined.Config, tag="fixed"):
        stride: Count = 128
        """Tokens of a block."""
        summary: Count = 8
        """How many of each block all later tokens see."""
        use: Use = "merged"

        @model_validator(mode="after")
        def _possible(self) -> Fixed.Config:
            if self.summary > self.stride:
                raise ValueError(f"summary={self.summary}: a block has {self.stride} tokens; use at most as many")
            return self

        def spelled(self) -> Pattern.Config:
            near = BlockLocal.Config(size=self.stride, before=0)
            columns = Global.Config(first=0, every=self.stride, count=self.summary, see_all=False)
            return WAYS[self.use](members=(near, Causal.Config(of=columns)))

        def check_length(self, length: int) -> None:
            _check_stride(self.stride, length)


def _check_stride(stride: int, length: int) -> None:
    if stride > length:
        raise ValueError(
            f"stride={stride} is longer than a text of {length} tokens; use at most {length}, or longer texts"
        )
