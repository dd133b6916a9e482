"""Everyone, everything before, and a window."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from sublayer.nn.attention.bands import Band, before, dense
from sublayer.nn.attention.pattern.base import Bands, Pattern
from sublayer.nn.attention.ranges import Ranges
from sublayer.nn.config import Count
from sublayer.nn.limits import least
from sublayer.nn.scene import Scene


class Full(Pattern):
    """Everyone sees everyone."""

    class Config(Pattern.Config, tag="full"):
        @property
        def relative(self) -> bool:
            return True

        @property
        def unrestricted(self) -> bool:
            return True

        def allows(self, i: Tensor, j: Tensor) -> Tensor:
            return torch.ones_like(i - j, dtype=torch.bool)

        def bands(self, length: int, memory: int, start: int) -> Bands:
            return (dense(length, memory, causal=False),)

        def ranges(self, i: int) -> Ranges:
            return (range(i + 1),)

        def within(self, reach: int | None) -> Pattern.Config:
            return self if reach is None else Window.Config(size=reach + 1, look="both")

        def mask(self, scene: Scene, memory: int) -> None:
            return None


class Causal(Pattern):
    """A query sees itself and what stands before it, of what `of` lets it see."""

    class Config(Pattern.Config, tag="causal"):
        added = frozenset({"of"})

        of: Pattern.Config = Full.Config()
        """The pattern of which later tokens are hidden."""

        @property
        def relative(self) -> bool:
            return self.of.relative

        @property
        def triangle(self) -> bool:
            return self.of.unrestricted

        @property
        def causal(self) -> bool:
            return True

        @property
        def reach(self) -> int | None:
            return self.of.reach

        @property
        def recent(self) -> int | None:
            return self.of.recent

        @property
        def lasting(self) -> int | None:
            return self.of.lasting

        def lasts(self, j: Tensor) -> Tensor:
            return self.of.lasts(j)

        def allows(self, i: Tensor, j: Tensor) -> Tensor:
            return self.of.allows(i, j)

        def bands(self, length: int, memory: int, start: int) -> Bands | None:
            if self.of.unrestricted:
                return (dense(length, memory, causal=True),)
            bands = self.of.bands(length, memory, start)
            end_L = torch.arange(memory + 1, memory + length + 1)
            return None if bands is None else tuple(cut for band in bands for cut in before(band, memory, end_L))

        def ranges(self, i: int) -> Ranges | None:
            return self.of.ranges(i)

        def within(self, reach: int | None) -> Pattern.Config:
            return Window.Config(size=reach + 1, look="back") if reach is not None and self.triangle else self

        def at(self, layer: int, layers: int) -> Pattern.Config:
            return self.but(of=self.of.at(layer, layers))

        def by_head(self, heads: int) -> tuple[Pattern.Config, ...]:
            return tuple(self.but(of=of) for of in self.of.by_head(heads))

        @property
        def image_row(self) -> int | None:
            return self.of.image_row

        def for_images(self, row: int) -> Pattern.Config:
            return self.but(of=self.of.for_images(row))

        def check(self, heads: int) -> None:
            self.of.check(heads)

        def check_length(self, length: int) -> None:
            self.of.check_length(length)


class Window(Pattern):
    """A query sees the `size` tokens that end with itself; looking both ways, also the size − 1 after it."""

    class Config(Pattern.Config, tag="window"):
        size: Count = 128
        """Tokens seen, the query's own included."""
        look: Literal["back", "both"] = "back"

        @property
        def relative(self) -> bool:
            return True

        @property
        def reach(self) -> int:
            return self.size - 1

        @property
        def causal(self) -> bool:
            return self.look == "back"

        @property
        def contiguous(self) -> bool:
            return self.look == "back"

        def allows(self, i: Tensor, j: Tensor) -> Tensor:
            return i - j < self.size if self.look == "back" else (i - j).abs() < self.size

        def bands(self, length: int, memory: int, start: int) -> Bands:
            own_L, ahead = torch.arange(memory, memory + length), 0 if self.look == "back" else self.reach
            lo_L, hi_L = (own_L - self.reach).clamp(min=0), (own_L + ahead + 1).clamp(max=memory + length)
            return (Band(lo_L.int(), hi_L.int()),)

        def ranges(self, i: int) -> Ranges:
            return (range(max(0, i - self.reach), i + 1),)

        def within(self, reach: int | None) -> Pattern.Config:
            size = least(self.size, None if reach is None else reach + 1)
            return self if size == self.size else self.but(size=size)
