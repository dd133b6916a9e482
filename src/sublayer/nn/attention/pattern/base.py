"""Patterns: who may see whom. A pattern and a memory together make the mask of a pass; True means "may attend".

A pattern gives things that must agree: a predicate on positions (the truth); bands of keys (the work of a pass, and its
cost), without which it is computed on the full rectangle; ranges of keys (the work of a single query); and which keys a
later query can still see, so that no others are stored.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable
from dataclasses import dataclass
from functools import lru_cache, reduce

import torch
from jaxtyping import Bool
from torch import Tensor

from sublayer.nn.attention.bands import Band, on_cpu
from sublayer.nn.attention.ranges import Ranges
from sublayer.nn.config import Config
from sublayer.nn.limits import least
from sublayer.nn.memory import Memory
from sublayer.nn.scene import Scene

Bands = tuple[Band, ...]


class Pattern:
    """Family of patterns; a pattern is config and mathematics, it owns no tensors."""

    class Config(Config, family="pattern"):
        @property
        def relative(self) -> bool:
            """Whether the distance i − j alone decides."""
            return False

        @property
        def triangle(self) -> bool:
            """Whether it is exactly the lower triangle, which attention kernels know by themselves."""
            return False

        @property
        def unrestricted(self) -> bool:
            """Whether everyone sees everyone."""
            return False

        @property
        def causal(self) -> bool:
            """Whether no query sees what stands after it."""
            return False

        @property
        def reach(self) -> int | None:
            """How many earlier tokens a query can see; None for all."""
            return None

        @property
        def contiguous(self) -> bool:
            """Whether a query sees each of the last `reach` tokens and no other."""
            return self.triangle

        @property
        def recent(self) -> int | None:
            """Of the tokens so far, later queries can see only the last so many and those that `lasts` names; None:
            perhaps all."""
            return self.reach

        @property
        def lasting(self) -> int | None:
            """How many tokens of a text `lasts` names at most; None: no limit."""
            return 0

        def lasts(self, j: Tensor) -> Tensor:
            """Whether queries may see the key at position j however late they come."""
            return torch.zeros_like(j, dtype=torch.bool)

        def stored(self, tokens: int) -> int:
            """How many of a text's first `tokens` tokens a later query can see."""
            near = least(tokens, self.recent) or 0
            return near + (0 if self.lasting == 0 else int(self.lasts(torch.arange(tokens - near, device="cpu")).sum()))

        def ranges(self, i: int) -> Ranges | None:
            """Positions of the keys up to its own that a query at position i sees, each once: a single query reads no
            others. None: it reads all that are stored, masked by `allows`."""
            return None

        def allows(self, i: Tensor, j: Tensor) -> Tensor:
            """Whether a query at position i may see a key at position j, for tensors that broadcast.

            A causal pattern need not exclude j > i: the order of tokens does that, also where positions are given.
            """
            raise NotImplementedError(f"{type(self).__qualname__} does not say who sees whom; define allows(i, j)")

        def bands(self, length: int, memory: int, start: int) -> Bands | None:
            """What `length` queries, the first at position `start`, see of the `memory` keys before it and their own,
            numbered from the first: as `allows` says and nothing else, each pair once. None: no better than the
            rectangle."""
            return None

        def within(self, reach: int | None) -> Pattern.Config:
            """The pattern where a span lets no query see farther than `reach`; itself is always right, if slower."""
            return self

        def at(self, layer: int, layers: int) -> Pattern.Config:
            """The pattern of one layer, the `layer`-th of those that have it."""
            return self

        def by_head(self, heads: int) -> tuple[Pattern.Config, ...]:
            """The pattern of each head."""
            return (self,) * heads

        @property
        def image_row(self) -> int | None:
            """Tokens of a row of the images that it is made for; None: it reads tokens as one line."""
            return None

        def for_images(self, row: int) -> Pattern.Config:
            """The pattern for images whose rows have so many tokens; itself where that makes no difference."""
            return self

        def check(self, heads: int) -> None:
            """Raise ValueError where it cannot be divided among so many heads."""

        def check_length(self, length: int) -> None:
            """Raise ValueError where texts of so many tokens are too short for it to be what it says."""

        def sees(self, i: Tensor, j: Tensor) -> Tensor:
            """`allows`, with later tokens excluded if it is causal: where positions are the order."""
            return self.allows(i, j) & (j <= i) if self.causal else self.allows(i, j)

        def allowed(self, scene: Scene, memory: int, heads: int) -> Bool[Tensor, "#B #H L M"] | None:
            """Which of the `memory` earlier slots and the segment each query may see; None for all."""
            kinds = self.by_head(heads)
            masks = {kind: kind.mask(scene, memory) for kind in dict.fromkeys(kinds)}
            if len(masks) == 1:
                return masks[kinds[0]]
            everyone = torch.ones(1, 1, scene.length, memory + scene.length, dtype=torch.bool, device=scene.i_BL.device)
            each = (everyone if (mask := masks[kind]) is None else mask for kind in kinds)
            return torch.cat(torch.broadcast_tensors(*each), dim=1)

        def mask(self, scene: Scene, memory: int) -> Bool[Tensor, "#B 1 L M"] | None:
            """`allowed` of a pattern of one head, as `by_head` gives them."""
            if self.triangle:
                return None if scene.length == 1 else lower(scene, memory)
            seen_B1LM = self.allows(scene.i_BL[:, None, :, None], scene.positions(memory)[:, None, None, :])
            return seen_B1LM & lower(scene, memory) if self.causal else seen_B1LM


def bands_of(pattern: Pattern.Config, heads: int, length: int, memory: int, start: int) -> Bands | None:
    """The bands of all heads; None: no better than the rectangle. The position of the first query does not matter to a
    relative pattern."""
    return _bands_of(pattern, heads, length, memory, 0 if pattern.relative else start)


@lru_cache(maxsize=128)
@on_cpu
def _bands_of(pattern: Pattern.Config, heads: int, length: int, memory: int, start: int) -> Bands | None:
    kinds = pattern.by_head(heads)
    bands = {kind: kind.bands(length, memory, start) for kind in dict.fromkeys(kinds)}
    if None in bands.values():
        return None
    # A band that several heads have is one.
    alike: dict[Hashable, list[tuple[Band, Pattern.Config]]] = defaultdict(list)
    for kind, mine in bands.items():
        for band in mine or ():
            if len(band.lo):
                alike[band.content].append((band, kind))
    found = ((same[0][0], {kind for _, kind in same}) for same in alike.values())
    return tuple(band.of_heads(tuple(kind in having for kind in kinds)) for band, having in found)


def lower(scene: Scene, memory: int) -> Bool[Tensor, "1 1 L M"]:
    """Keys up to the query's own. By order, not by position id: ids may be given in any order."""
    ones_LM = torch.ones(scene.length, memory + scene.length, dtype=torch.bool, device=scene.i_BL.device)
    return ones_LM.tril(memory)[None, None]


@dataclass(frozen=True, eq=False)
class Sight:
    """What the queries of a pass may see, in the cheapest form that expresses it. Equal only to itself."""

    mask_BHLM: Bool[Tensor, "#B #H L M"] | None = None
    causal: bool = False
    """The plain lower triangle with no memory, which attention kernels know by themselves."""


def sight(scene: Scene, pattern: Pattern.Config, memory: Memory.Config, remembered: int, heads: int) -> Sight:
    """Pattern, memory and padding in one; made once a pass for all layers that share them."""
    key = "sight", pattern, memory, remembered, heads
    return scene.once(key, lambda: _sight(scene, pattern, memory, remembered, heads))


def _sight(scene: Scene, pattern: Pattern.Config, memory: Memory.Config, remembered: int, heads: int) -> Sight:
    valid_BM = scene.valid(remembered)
    spans_BLM = memory.allowed(scene, remembered)
    if pattern.triangle and spans_BLM is None and valid_BM is None and remembered == 0:
        return Sight(causal=scene.length > 1)
    masks = [
        pattern.allowed(scene, remembered, heads),
        None if spans_BLM is None else spans_BLM[:, None],
        None if valid_BM is None else valid_BM[:, None, None, :],
    ]
    known = [mask for mask in masks if mask is not None]
    return Sight(reduce(torch.logical_and, known) if known else None)
