"""Blocks of neighbours: in one dimension, in two, and in another block's place."""

from __future__ import annotations

from typing import Annotated, Literal

import torch
from pydantic import Field, model_validator
from torch import Tensor

from sublayer.nn.attention.bands import Band
from sublayer.nn.attention.pattern.base import Bands, Pattern
from sublayer.nn.attention.ranges import Ranges
from sublayer.nn.config import Count

Size = Annotated[int, Field(ge=0)]


class BlockLocal(Pattern):
    """A query sees its block and the `before` tokens in front of it, up to itself; or, looking both ways, all of its
    block and as many on either side (Parmar et al. 2018, section 3.3, one-dimensional)."""

    class Config(Pattern.Config, tag="block_local"):
        size: Count = 128
        """Tokens of a block."""
        before: Size = 128
        look: Literal["back", "both"] = "back"

        @property
        def causal(self) -> bool:
            return self.look == "back"

        @property
        def reach(self) -> int:
            return self.size - 1 + self.before

        def allows(self, i: Tensor, j: Tensor) -> Tensor:
            first = i - i % self.size
            seen = j >= first - self.before
            return seen if self.look == "back" else seen & (j < first + self.size + self.before)

        def bands(self, length: int, memory: int, start: int) -> Bands:
            i_L, key = torch.arange(start, start + length), start - memory
            first_L = i_L - i_L % self.size
            end_L = i_L + 1 if self.look == "back" else first_L + self.size + self.before
            return (_natural(first_L - self.before - key, end_L - key, memory + length),)

        def ranges(self, i: int) -> Ranges:
            return (range(max(0, i - i % self.size - self.before), i + 1),)


class Blockwise(Pattern):
    """A block of queries sees one block of keys, by a permutation of the blocks that each head has for itself (Qiu et
    al. 2020). A text longer than the permutation's blocks is several texts, one after the other."""

    class Config(Pattern.Config, tag="blockwise"):
        size: Count = 256
        """Tokens of a block."""
        orders: Annotated[tuple[tuple[int, ...], ...], Field(min_length=1)] = ((0, 1), (1, 0))
        """Permutations: the block that each block sees. They are divided among the heads in order."""

        @model_validator(mode="after")
        def _permutations(self) -> Blockwise.Config:
            blocks = len(self.orders[0])
            for order in self.orders:
                if sorted(order) != list(range(blocks)) or not order:
                    raise ValueError(
                        f"orders: {list(order)} is no permutation of {blocks or 1} blocks; give each of "
                        f"0 … {max(0, blocks - 1)} once"
                    )
            return self

        @property
        def blocks(self) -> int:
            return len(self.orders[0])

        def _seen(self, i: Tensor, order: tuple[int, ...]) -> Tensor:
            """The first position of the block that a query at i sees."""
            block = i // self.size
            nth = block % self.blocks
            return (block - nth + torch.tensor(order, device=i.device)[nth]) * self.size

        def allows(self, i: Tensor, j: Tensor) -> Tensor:
            found = torch.zeros_like(i - j, dtype=torch.bool)
            for order in self.orders:
                first = self._seen(i, order)
                found = found | ((j >= first) & (j < first + self.size))
            return found

        def by_head(self, heads: int) -> tuple[Pattern.Config, ...]:
            mine = (self.orders[h * len(self.orders) // heads] for h in range(heads))
            return tuple(self.but(orders=(order,)) for order in mine)

        def check(self, heads: int) -> None:
            if heads < len(self.orders):
                raise ValueError(
                    f"blockwise has {len(self.orders)} permutations for {heads} heads; give at most {heads}"
                )

        def check_length(self, length: int) -> None:
            if length % (self.blocks * self.size):
                raise ValueError(
                    f"orders: permutations of {self.blocks} blocks of size={self.size} divide texts of "
                    f"{self.blocks * self.size} tokens, got {length}; use such a length or a multiple of it, or others"
                )

        def bands(self, length: int, memory: int, start: int) -> Bands | None:
            if len(self.orders) > 1:
                return None
            first_L = self._seen(torch.arange(start, start + length), next(iter(self.orders))) - (start - memory)
            return (_natural(first_L, first_L + self.size, memory + length),)


class BlockLocal2D(Pattern):
    """Of an image in raster order, a query sees what stands before it in its block, in `above` rows over the block and
    `beside` columns on either side of it (Parmar et al. 2018, section 3.3, two-dimensional).

    Deviation from the paper: pixels are generated in raster order of the image, not block by block.
    """

    class Config(Pattern.Config, tag="block_local_2d"):
        width: Count = 32
        """Tokens of a row of the image: pixels times channels."""
        rows: Count = 8
        columns: Count = 8
        """Size of a block, in tokens."""
        above: Size = 8
        beside: Size = 8

        @model_validator(mode="after")
        def _divides(self) -> BlockLocal2D.Config:
            if self.width % self.columns:
                raise ValueError(
                    f"width={self.width}: rows of an image are cut into blocks of columns={self.columns}, which does "
                    "not divide it; use a divisor of the width"
                )
            return self

        def check_length(self, length: int) -> None:
            if length < self.width:
                raise ValueError(
                    f"width={self.width}: a text of {length} tokens is no row of the image; use at most {length}, or "
                    "longer texts"
                )

        @property
        def causal(self) -> bool:
            return True

        @property
        def image_row(self) -> int:
            return self.width

        def for_images(self, row: int) -> Pattern.Config:
            return self.but(width=row)

        @property
        def reach(self) -> int:
            return (self.rows - 1 + self.above + 1) * self.width

        def allows(self, i: Tensor, j: Tensor) -> Tensor:
            row, column = i // self.width, i % self.width
            top, left = row - row % self.rows - self.above, column - column % self.columns - self.beside
            across = j % self.width
            return (j // self.width >= top) & (across >= left) & (across < left + self.columns + 2 * self.beside)

        def ranges(self, i: int) -> Ranges:
            """One of each row."""
            row, column = divmod(i, self.width)
            top, left = row - row % self.rows - self.above, column - column % self.columns - self.beside
            across = max(0, left), min(self.width, left + self.columns + 2 * self.beside)
            starts = range(max(0, top) * self.width, i + 1, self.width)
            each = (range(start + across[0], min(start + across[1], i + 1)) for start in starts)
            return tuple(one for one in each if one)

        def bands(self, length: int, memory: int, start: int) -> Bands:
            """Queries by blocks of columns; keys, for each of these, those of its columns and of the ones beside it."""
            first = start - memory
            i_L, j_M = torch.arange(start, start + length), torch.arange(first, start + length)
            found, shift = [], 0
            for left in range(0, self.width, self.columns):
                mine = ((i_L % self.width) // self.columns * self.columns == left).nonzero().flatten()
                across = j_M % self.width
                strip = (across >= left - self.beside) & (across < left + self.columns + self.beside)
                key_X = j_M[strip]
                row = i_L[mine] // self.width
                top = (row - row % self.rows - self.above) * self.width
                lo, hi = torch.searchsorted(key_X, top), torch.searchsorted(key_X, i_L[mine], right=True)
                found.append((lo + shift, hi + shift, mine, key_X - first))
                shift += len(key_X)
            lo, hi, queries, keys = (torch.cat(column).int() for column in zip(*found, strict=True))
            return (Band(lo, hi, queries, keys),)


def _natural(lo: Tensor, hi: Tensor, attended: int) -> Band:
    """Intervals of the keys as they come, within those that exist."""
    return Band(lo.clamp(0, attended).int(), hi.clamp(0, attended).int())
