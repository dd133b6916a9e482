"""Patterns: who may see whom. A pattern and a memory together make the mask of a pass; True means "may attend".

A pattern gives two things that must agree: a predicate on positions (the truth), and for each tile of queries the runs
of keys that any of them may see (the work, and the cost). A pattern without runs is computed on the full rectangle.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar, Literal

import torch
from jaxtyping import Bool
from torch import Tensor

from sublayer.nn.config import Config, Count
from sublayer.nn.memory import Memory
from sublayer.nn.scene import Scene

Runs = Sequence[Sequence[tuple[int, int]]]
"""For each tile of queries, disjoint ranges [first, last + 1) of keys, in order."""


class Pattern:
    """Family of patterns; a pattern is config and mathematics, it owns no tensors."""

    class Config(Config, family="pattern"):
        tile: ClassVar[int] = 64
        """Queries that share their runs of keys."""
        triangle: ClassVar[bool] = False
        """Whether it is exactly the lower triangle, which attention kernels know by themselves."""
        unrestricted: ClassVar[bool] = False
        """Whether everyone sees everyone."""

        @property
        def causal(self) -> bool:
            """Whether no query sees what stands after it."""
            return False

        @property
        def reach(self) -> int | None:
            """How many earlier tokens a query can see; None for all."""
            return None

        def allows(self, i: Tensor, j: Tensor) -> Tensor:
            """Whether a query at position i may see a key at position j, for tensors that broadcast.

            A causal pattern need not exclude j > i: the order of tokens does that, also where positions are given.
            """
            raise NotImplementedError(f"{type(self).__qualname__} does not say who sees whom; define allows(i, j)")

        def runs(self, length: int, memory: int) -> Runs | None:
            """For each `tile` of `length` queries, which of the `memory` earlier keys and the segment's own they may
            see, numbered from the first earlier key. It may hold more than `allows`, never less. None: all of them."""
            return None

        def within(self, reach: int | None) -> Pattern.Config:
            """The pattern where a span lets no query see farther than `reach`; itself is always right, if slower."""
            return self

        def pairs(self, length: int, memory: int) -> int:
            """Query–key pairs that are multiplied, masked ones included."""
            tiles = tiled(self, length, memory)
            return length * (memory + length) if tiles is None else tiles.pairs

        def allowed(self, scene: Scene, memory: int) -> Bool[Tensor, "#B L M"] | None:
            """Which of the `memory` earlier slots and the segment each query may see; None for all."""
            seen_BLM = self.allows(scene.i_BL[:, :, None], scene.positions(memory)[:, None, :])
            return seen_BLM & lower(scene, memory) if self.causal else seen_BLM


class Full(Pattern):
    """Everyone sees everyone."""

    class Config(Pattern.Config, tag="full"):
        unrestricted = True

        def allows(self, i: Tensor, j: Tensor) -> Tensor:
            return torch.ones_like(i - j, dtype=torch.bool)

        def within(self, reach: int | None) -> Pattern.Config:
            return self if reach is None else Window.Config(size=reach + 1, look="both")

        def allowed(self, scene: Scene, memory: int) -> Bool[Tensor, "#B L M"] | None:
            return None


class Causal(Pattern):
    """A query sees itself and what stands before it."""

    class Config(Pattern.Config, tag="causal"):
        triangle = True

        @property
        def causal(self) -> bool:
            return True

        def allows(self, i: Tensor, j: Tensor) -> Tensor:
            return j <= i

        def within(self, reach: int | None) -> Pattern.Config:
            return self if reach is None else Window.Config(size=reach + 1, look="back")

        def allowed(self, scene: Scene, memory: int) -> Bool[Tensor, "#B L M"] | None:
            return None if scene.length == 1 else lower(scene, memory)


class Window(Pattern):
    """A query sees the `size` tokens that end with itself; looking both ways, also the size − 1 after it."""

    class Config(Pattern.Config, tag="window"):
        size: Count = 128
        """Tokens seen, the query's own included."""
        look: Literal["back", "both"] = "back"

        @property
        def reach(self) -> int:
            return self.size - 1

        @property
        def causal(self) -> bool:
            return self.look == "back"

        def allows(self, i: Tensor, j: Tensor) -> Tensor:
            return i - j < self.size if self.look == "back" else (i - j).abs() < self.size

        def runs(self, length: int, memory: int) -> Runs:
            ahead = 0 if self.look == "back" else self.reach
            first = (memory + start for start in range(0, length, self.tile))
            last = (memory + min(start + self.tile, length) for start in range(0, length, self.tile))
            return [
                [(max(0, a - self.reach), min(memory + length, b + ahead))] for a, b in zip(first, last, strict=True)
            ]

        def within(self, reach: int | None) -> Pattern.Config:
            return self if reach is None or self.reach <= reach else self.but(size=reach + 1)

        @property
        def spread(self) -> int:
            """Keys that a block of `size` queries is given: its own and one or two neighbours' (blocks.py)."""
            return self.size * (2 if self.look == "back" else 3)

        @property
        def longest_rectangle(self) -> int:
            """Queries up to which blocks are no less work than the full rectangle."""
            return 2 * self.spread

        def pairs(self, length: int, memory: int) -> int:
            if length <= self.longest_rectangle:
                return length * (memory + length)
            return -(-length // self.size) * self.size * self.spread


@dataclass(frozen=True)
class Tiles:
    """A pattern's runs, padded to one width so that all tiles are one batch."""

    size: int
    width: int
    runs: Runs

    @property
    def pairs(self) -> int:
        return len(self.runs) * self.size * self.width

    def keys(self) -> list[list[int]]:
        """For each tile its keys, padded with −1 to the number of keys of the widest tile."""
        rows = [[key for first, end in runs for key in range(first, end)] for runs in self.runs]
        return [row + [-1] * (self.width - len(row)) for row in rows]


def tiled(pattern: Pattern.Config, length: int, memory: int) -> Tiles | None:
    """The tiles of a pass, where they are at most half the work of the full rectangle; None for the rectangle."""
    return _tiled(pattern, length, memory)  # pyright: ignore[reportArgumentType]  (a frozen model has a hash)


@lru_cache(maxsize=256)
def _tiled(pattern: Pattern.Config, length: int, memory: int) -> Tiles | None:
    runs = pattern.runs(length, memory)
    if not runs:
        return None
    width = max(sum(end - first for first, end in tile) for tile in runs)
    tiles = Tiles(pattern.tile, max(1, width), runs)
    return tiles if 2 * tiles.pairs <= length * (memory + length) else None


def lower(scene: Scene, memory: int) -> Bool[Tensor, "1 L M"]:
    """Keys up to the query's own. By order, not by position id: ids may be given in any order."""
    ones_LM = torch.ones(scene.length, memory + scene.length, dtype=torch.bool, device=scene.i_BL.device)
    return ones_LM.tril(memory)[None]


@dataclass(frozen=True, eq=False)
class Sight:
    """What the queries of a pass may see, in the cheapest form that expresses it. Equal only to itself."""

    mask_B1LM: Bool[Tensor, "#B 1 L M"] | None = None
    causal: bool = False
    """The plain lower triangle with no memory, which attention kernels know by themselves."""


def sight(scene: Scene, pattern: Pattern.Config, memory: Memory.Config, remembered: int) -> Sight:
    """Pattern, memory and padding in one; made once a pass for all layers that share them."""
    return scene.once(("sight", pattern, memory, remembered), lambda: _sight(scene, pattern, memory, remembered))


def _sight(scene: Scene, pattern: Pattern.Config, memory: Memory.Config, remembered: int) -> Sight:
    valid_BM = scene.valid(remembered)
    spans_BLM = memory.allowed(scene, remembered)
    if pattern.triangle and spans_BLM is None and valid_BM is None and remembered == 0:
        return Sight(causal=scene.length > 1)
    masks = [pattern.allowed(scene, remembered), spans_BLM, None if valid_BM is None else valid_BM[:, None, :]]
    mask_BLM = None
    for mask in masks:
        if mask is not None:
            mask_BLM = mask if mask_BLM is None else mask_BLM & mask
    return Sight(None if mask_BLM is None else mask_BLM[:, None])
