"""Dilation: a pattern on every so many-th token."""

from __future__ import annotations

from itertools import zip_longest

import torch
from torch import Tensor

from sublayer.nn.attention.bands import Band
from sublayer.nn.attention.pattern.base import Bands, Pattern
from sublayer.nn.attention.pattern.basic import Window
from sublayer.nn.attention.ranges import Ranges
from sublayer.nn.config import Count


class Dilated(Pattern):
    """Tokens whose positions leave the same remainder are a text of their own, in which `of` says who sees whom."""

    class Config(Pattern.Config, tag="dilated"):
        of: Pattern.Config = Window.Config()
        by: Count = 2
        """Positions from one token of such a text to the next."""

        @property
        def relative(self) -> bool:
            return self.of.relative

        @property
        def causal(self) -> bool:
            return self.of.causal

        @property
        def reach(self) -> int | None:
            return None if self.of.reach is None else self.of.reach * self.by

        @property
        def recent(self) -> int | None:
            return None if self.of.recent is None else self.of.recent * self.by

        @property
        def lasting(self) -> int | None:
            return None if self.of.lasting is None else self.of.lasting * self.by

        def lasts(self, j: Tensor) -> Tensor:
            return self.of.lasts(j // self.by)

        def ranges(self, i: int) -> Ranges | None:
            inside, by, first = self.of.ranges(i // self.by), self.by, i % self.by
            if inside is None:
                return None
            return tuple(
                range(one.start * by + first, one[-1] * by + first + 1, one.step * by) for one in inside if one
            )

        def allows(self, i: Tensor, j: Tensor) -> Tensor:
            return ((i - j) % self.by == 0) & self.of.sees(i // self.by, j // self.by)

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
            if self.by > length:
                raise ValueError(
                    f"by={self.by}: tokens so far apart are not in a text of {length}; use at most {length}, or longer "
                    "texts"
                )
            self.of.check_length(-(-length // self.by))

        def bands(self, length: int, memory: int, start: int) -> Bands | None:
            texts = []
            for first in range(min(self.by, memory + length)):
                key_X = torch.arange(first, memory + length, self.by)
                before = int((key_X < memory).sum())
                if before == len(key_X):
                    continue
                at = (start - memory + int(key_X[before])) // self.by
                bands = self.of.bands(len(key_X) - before, before, at)
                if bands is None:
                    return None
                texts.append([_spread(band, key_X, before, memory) for band in bands])
            return tuple(_joined([band for band in bands if band is not None]) for bands in zip_longest(*texts))


def _spread(band: Band, key_X: Tensor, before: int, memory: int) -> Band:
    """A band of one such text, in the numbers of the whole."""
    queries = torch.arange(len(band.lo)) if band.queries is None else band.queries.long()
    keys = key_X if band.keys is None else key_X[band.keys.long()]
    return Band(band.lo, band.hi, (key_X[before + queries] - memory).int(), keys.int(), band.heads)


def _joined(bands: list[Band]) -> Band:
    """One band for several of different queries: their orders one after the other."""
    keys = [band.keys for band in bands if band.keys is not None]
    queries = [band.queries for band in bands if band.queries is not None]
    shift = (
        torch.tensor([0, *(len(key) for key in keys[:-1])])
        .cumsum(0)
        .repeat_interleave(torch.tensor([len(band.lo) for band in bands]))
    )
    lo, hi = (torch.cat([getattr(band, end) for band in bands]) + shift for end in ("lo", "hi"))
    return Band(lo.int(), hi.int(), torch.cat(queries), torch.cat(keys), bands[0].heads)
