"""Patterns made of patterns."""

from __future__ import annotations

from collections.abc import Iterator
from functools import reduce
from typing import Annotated

import torch
from pydantic import Field
from torch import Tensor

from sublayer.nn.attention.bands import Band, keep, without
from sublayer.nn.attention.pattern.base import Bands, Pattern
from sublayer.nn.attention.pattern.basic import Causal, Window
from sublayer.nn.attention.pattern.chosen import Global
from sublayer.nn.attention.ranges import Ranges, disjoint
from sublayer.nn.limits import most

Members = Annotated[tuple[Pattern.Config, ...], Field(min_length=1)]


class Several(Pattern):
    """Abstract: what several patterns have in common, however they are put together."""

    class Config(Pattern.Config):
        members: Members = (Window.Config(), Causal.Config(of=Global.Config()))

        @property
        def relative(self) -> bool:
            return all(member.relative for member in self.members)

        @property
        def causal(self) -> bool:
            return all(member.causal for member in self.members)

        @property
        def reach(self) -> int | None:
            return most(member.reach for member in self.members)

        @property
        def recent(self) -> int | None:
            return most(member.recent for member in self.members)

        @property
        def lasting(self) -> int | None:
            each = [member.lasting for member in self.members]
            return None if None in each else sum(one or 0 for one in each)

        def lasts(self, j: Tensor) -> Tensor:
            return reduce(torch.logical_or, (member.lasts(j) for member in self.members))

        def allows(self, i: Tensor, j: Tensor) -> Tensor:
            return reduce(torch.logical_or, (member.sees(i, j) for member in self.members))

        def ranges(self, i: int) -> Ranges | None:
            each = [member.ranges(i) for member in self.members]
            return None if None in each else disjoint([one for ranges in each for one in ranges or ()])

        def within(self, reach: int | None) -> Pattern.Config:
            return self.but(members=tuple(member.within(reach) for member in self.members))

        def at(self, layer: int, layers: int) -> Pattern.Config:
            return self.but(members=tuple(member.at(layer, layers) for member in self.members))

        @property
        def image_row(self) -> int | None:
            return next((row for member in self.members if (row := member.image_row) is not None), None)

        def for_images(self, row: int) -> Pattern.Config:
            return self.but(members=tuple(member.for_images(row) for member in self.members))

        def check(self, heads: int) -> None:
            for member in self.members:
                member.check(heads)

        def check_length(self, length: int) -> None:
            for member in self.members:
                member.check_length(length)


class Union(Several):
    """What any of its members lets a query see."""

    class Config(Several.Config, tag="union"):
        def by_head(self, heads: int) -> tuple[Pattern.Config, ...]:
            each = [member.by_head(heads) for member in self.members]
            if all(len(set(kinds)) == 1 for kinds in each):
                return (self.but(members=tuple(kinds[0] for kinds in each)),) * heads
            return tuple(self.but(members=members) for members in zip(*each, strict=True))

        def bands(self, length: int, memory: int, start: int) -> Bands | None:
            members = [(member, member.bands(length, memory, start)) for member in self.members]
            found: list[Band] = []
            # Those whose keys come as in the text go first: the others are cut by their intervals, not pair by pair.
            earlier: list[tuple[Pattern.Config, Bands]] = []
            for member, bands in sorted(members, key=lambda one: not _in_text_order(one[1] or ())):
                if bands is None:
                    return None
                for other in earlier:
                    bands = tuple(_without(bands, *other, length, memory, start))
                found += bands
                earlier.append((member, bands))
            return tuple(found)


def _in_text_order(bands: Bands) -> bool:
    return all(band.keys is None for band in bands)


def _without(bands: Bands, other: Pattern.Config, taken: Bands, length: int, memory: int, start: int) -> Iterator[Band]:
    """What is left of some bands beside the bands of another pattern."""
    if not _in_text_order(taken):
        first = start - memory
        for band in bands:
            yield from keep(band, memory, lambda i, j: ~other.sees(i + first, j + first))
        return
    for one in taken:
        lo_L, hi_L = torch.zeros(2, length, dtype=torch.int32)
        mine = slice(None) if one.queries is None else one.queries.long()
        lo_L[mine], hi_L[mine] = one.lo, one.hi
        # Each cut makes two of every band, most of which are soon empty.
        bands = tuple(rest for band in bands for rest in without(band, memory, lo_L, hi_L) if len(rest.lo))
    yield from bands


class PerHead(Several):
    """The heads are divided among its members, in order and as evenly as their number allows."""

    class Config(Several.Config, tag="per_head"):
        def by_head(self, heads: int) -> tuple[Pattern.Config, ...]:
            mine = [member.by_head(heads) for member in self.members]
            return tuple(mine[h * len(mine) // heads][h] for h in range(heads))

        def check(self, heads: int) -> None:
            super().check(heads)
            if heads < len(self.members):
                raise ValueError(
                    f"per_head has {len(self.members)} patterns for {heads} heads; give at most one for each head"
                )


class ByLayer(Several):
    """Layer after layer takes the next member, then the first again."""

    class Config(Several.Config, tag="by_layer"):
        def at(self, layer: int, layers: int) -> Pattern.Config:
            return self.members[layer % len(self.members)].at(layer, layers)


class Combined(Pattern):
    """Abstract: a name for a combination of other patterns, with the sizes that a paper gives it."""

    class Config(Pattern.Config):
        def spelled(self) -> Pattern.Config:
            """The combination it stands for."""
            raise NotImplementedError

        @property
        def relative(self) -> bool:
            return self.spelled().relative

        @property
        def causal(self) -> bool:
            return self.spelled().causal

        @property
        def reach(self) -> int | None:
            return self.spelled().reach

        @property
        def recent(self) -> int | None:
            return self.spelled().recent

        @property
        def lasting(self) -> int | None:
            return self.spelled().lasting

        def lasts(self, j: Tensor) -> Tensor:
            return self.spelled().lasts(j)

        def allows(self, i: Tensor, j: Tensor) -> Tensor:
            return self.spelled().sees(i, j)

        def ranges(self, i: int) -> Ranges | None:
            return self.spelled().ranges(i)

        def bands(self, length: int, memory: int, start: int) -> Bands | None:
            return self.spelled().bands(length, memory, start)

        def at(self, layer: int, layers: int) -> Pattern.Config:
            return self.spelled().at(layer, layers)

        def by_head(self, heads: int) -> tuple[Pattern.Config, ...]:
            return self.spelled().by_head(heads)

        def check(self, heads: int) -> None:
            self.spelled().check(heads)

        def check_length(self, length: int) -> None:
            self.spelled().check_length(length)
