"""Attention on compressed blocks before a query's own and on the tokens of its own, whatever compresses a block.

Its state holds the compressed blocks, and the tokens of the block that is not finished.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

from sublayer.nn.attention import staircase
from sublayer.nn.attention.ranks import Ranks
from sublayer.nn.attention.staircase import Staircase
from sublayer.nn.scene import Scene
from sublayer.nn.state import SMALL, Growing, PartState

T = TypeVar("T")
Pair = tuple[Tensor, Tensor]
"""Keys and values."""
Compress = Callable[[Pair], Pair]
"""From those of the tokens of whole blocks to those of the blocks."""


@dataclass(frozen=True)
class Compressed(PartState):
    """Keys and values: of `blocks` finished blocks, then of the tokens of the unfinished one."""

    k: Growing
    v: Growing
    blocks: int


@dataclass(frozen=True)
class Blockwise:
    """A query sees every block before its own, as `each` keys, and the tokens of its own block up to itself.

    Blocks are counted from the first token of a text, padding left out, so that neither padding nor the length of a
    text moves them.
    """

    stride: int
    """Tokens of a block."""
    each: int = 1
    """Keys that a block becomes."""

    def pairs(self, length: int, memory: int) -> tuple[int, int]:
        """For `length` tokens after `memory` earlier ones: blocks that are compressed, and query–key pairs that are
        multiplied in each head."""
        before, begun = divmod(memory, self.stride)
        return (begun + length) // self.stride, self._stairs(length, begun + length, before).pairs

    def stored(self, tokens: int) -> int:
        """Keys that the state holds after so many tokens."""
        blocks, begun = divmod(tokens, self.stride)
        return blocks * self.each + begun

    def attend(
        self,
        q_BHLK: Float[Tensor, "B H L K"],
        new: Pair,
        compress: Compress,
        scene: Scene,
        state: Compressed | None,
        dropout: float,
    ) -> tuple[Float[Tensor, "B H L K"], Compressed]:
        """`new`: keys and values of the segment."""
        return (self._even if scene.even else self._ragged)(q_BHLK, new, compress, scene, state, dropout)

    def _stairs(self, length: int, tokens: int, before: int) -> Staircase:
        """`before`: number of blocks before the first of the tokens."""
        return Staircase(length, tokens, before + (tokens - 1) // self.stride, self.stride, self.each)

    def _even(
        self, q_BHLK: Tensor, new: Pair, compress: Compress, scene: Scene, state: Compressed | None, dropout: float
    ) -> tuple[Tensor, Compressed]:
        before, begun = divmod(scene.start, self.stride)
        count, far = begun + scene.length, before * self.each
        seen, whole = (count - 1) // self.stride * self.each, count // self.stride * self.stride
        past = both(lambda x: Growing.of(x[:, :, :0], 2), new) if state is None else (state.k, state.v)
        tokens = both(lambda old, x: torch.cat([old.value[:, :, far:], x], dim=2), past, new)
        blocks = compress(both(lambda x: x[:, :, :whole], tokens))
        if seen:
            done = both(lambda old: old.value[:, :, :far], past)
            keys = both(lambda old, b, x: torch.cat([old, b[:, :, :seen], x], dim=2), done, blocks, tokens)
        else:  # one block: the state, with the new tokens after it, is what is seen, and nothing of it is copied
            past = both(Growing.append, past, new)
            keys = both(lambda old: old.value, past)
        y_BHLK = staircase.attend(q_BHLK, *keys, self._stairs(scene.length, count, before), None, dropout)
        stored = both(lambda b, x: torch.cat([b, x[:, :, whole:]], dim=2), blocks, tokens)
        after = both(lambda old, x: _after(old, far, x), past, stored)
        return y_BHLK, Compressed(*after, before + count // self.stride)

    def _ragged(
        self, q_BHLK: Tensor, new: Pair, compress: Compress, scene: Scene, state: Compressed | None, dropout: float
    ) -> tuple[Tensor, Compressed]:
        before, ranks = 0 if state is None else state.blocks, Ranks.of(scene, self.stride, len(q_BHLK))
        past = both(lambda x: x[:, :, :0], new) if state is None else (state.k.value, state.v.value)
        far = before * self.each
        done = both(lambda old: old[:, :, :far], past)
        tokens = both(lambda x, old: ranks.spread(x, old[:, :, far:]), new, past)
        blocks, stairs = compress(tokens), self._stairs(ranks.width, ranks.width, before)
        seen = stairs.far - far
        keys = both(lambda old, b, x: torch.cat([old, b[:, :, :seen], x], dim=2), done, blocks, tokens)
        valid_BM = F.pad(ranks.finished(before, self.each), (0, seen + ranks.width), value=True)
        y_BHWK = staircase.attend(ranks.spread(q_BHLK), *keys, stairs, valid_BM, dropout)
        stored = both(lambda old, b, x: ranks.store(old, b, x, self.stride, self.each), done, blocks, tokens)
        after = both(lambda one: Growing.of(torch.cat(one, dim=2), 2), stored)
        return ranks.collect(y_BHWK), Compressed(*after, stored[0][0].shape[2] // self.each)


def both(make: Callable[..., T], *sides: tuple[Any, Any]) -> tuple[T, T]:
    """Made of the first of each pair, and of the second: of keys, and of values."""
    first, second = zip(*sides, strict=True)
    return make(*first), make(*second)


def _after(past: Growing, count: int, x_BGMK: Tensor) -> Growing:
    """The first `count` entries of a state, with these after them."""
    after = Growing(past.buffer, count, 2).append(x_BGMK) if len(past) else Growing.of(x_BGMK, 2)
    # Tokens of a block that is finished become fewer keys: the room they took is given back.
    return Growing.of(after.value.clone(), 2) if after.buffer.shape[2] > 4 * len(after) + SMALL else after
