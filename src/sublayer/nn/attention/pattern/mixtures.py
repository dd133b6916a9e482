"""Windows with global tokens: Longformer and BigBird."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from sublayer.nn.attention.pattern.base import Pattern
from sublayer.nn.attention.pattern.basic import Causal, Window
from sublayer.nn.attention.pattern.chosen import Global
from sublayer.nn.attention.pattern.combined import Combined, PerHead, Union
from sublayer.nn.attention.pattern.local import BlockLocal
from sublayer.nn.attention.pattern.random import Random
from sublayer.nn.attention.pattern.spaced import Dilated
from sublayer.nn.config import Count


class BigBird(Combined):
    """Blocks see their neighbours, the first `globals` blocks and a few at random (Zaheer et al. 2020).

    The paper's encoder looks both ways. Looking back is our own definition of a causal one: the block itself up to the
    query, `beside` blocks before it, the global blocks, and random ones from all that stand before.
    """

    class Config(Combined.Config, tag="bigbird"):
        block: Count = 64
        beside: Annotated[int, Field(ge=0)] = 1
        """Neighbouring blocks seen on each side."""
        globals: Annotated[int, Field(ge=0)] = 2
        """Global blocks, at the beginning."""
        random: Annotated[int, Field(ge=0)] = 3
        """Random blocks of each block and head."""
        look: Literal["back", "both"] = "both"
        seed: int = 0

        def spelled(self) -> Pattern.Config:
            near = BlockLocal.Config(size=self.block, before=self.beside * self.block, look=self.look)
            members: list[Pattern.Config] = [near]
            if self.globals:
                chosen = Global.Config(first=self.globals * self.block)
                members.append(Causal.Config(of=chosen) if self.look == "back" else chosen)
            if self.random:
                members.append(Random.Config(block=self.block, blocks=self.random, look=self.look, seed=self.seed))
            return Union.Config(members=tuple(members))

        def check_length(self, length: int) -> None:
            if self.globals * self.block > length:
                raise ValueError(
                    f"globals={self.globals}: so many blocks of {self.block} are more than the {length} tokens of a "
                    f"text; use at most {length // self.block}, or longer texts"
                )


class Longformer(Combined):
    """A window that grows with depth, in some heads of the upper layers dilated; and global tokens at the beginning
    (Beltagy et al. 2020, sections 3.1 and 4.1). Dilation grows, too: from the middle to the last layer."""

    class Config(Combined.Config, tag="longformer"):
        size: Count = 512
        """Window of the last layer, the query's own token included."""
        smallest: Count = 32
        """Window of the first layer; in between it grows by equal steps."""
        globals: Annotated[int, Field(ge=0)] = 0
        dilation: Count = 1
        """Distance of the tokens that dilated heads of the last layer see."""
        dilated: Annotated[float, Field(gt=0, le=1)] = 0.25
        """Share of the heads that is dilated, in the upper half of the layers."""
        look: Literal["back", "both"] = "back"

        def spelled(self) -> Pattern.Config:
            return self._mixed(self.size, self.dilation)

        def at(self, layer: int, layers: int) -> Pattern.Config:
            size = self.smallest + (self.size - self.smallest) * layer // max(1, layers - 1)
            upper = max(0, layer + 1 - (layers + 1) // 2)  # how deep in the upper half, from 1
            steps = -(-(self.dilation - 1) * upper // (layers // 2)) if upper else 0
            return self._mixed(size, 1 + steps)

        def check_length(self, length: int) -> None:
            if self.globals > length:
                raise ValueError(
                    f"globals={self.globals}: more than the {length} tokens of a text; use at most {length}, or longer "
                    "texts"
                )

        def _mixed(self, size: int, dilation: int) -> Pattern.Config:
            window: Pattern.Config = Window.Config(size=size, look=self.look)
            if dilation > 1:
                apart = Dilated.Config(of=window, by=dilation)
                plain = round(1 / self.dilated) - 1
                window = PerHead.Config(members=(window,) * plain + (apart,))
            if not self.globals:
                return window
            chosen = Global.Config(first=self.globals)
            return Union.Config(members=(window, Causal.Config(of=chosen) if self.look == "back" else chosen))
