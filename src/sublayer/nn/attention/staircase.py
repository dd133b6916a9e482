"""Attention in which a query sees all blocks before its own, each as few keys, and its own block up to itself."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from sublayer.nn import paths
from sublayer.nn.attention import native
from sublayer.nn.attention.along import Terms
from sublayer.nn.attention.bands import Band
from sublayer.nn.attention.kernel.softmax import attend as attend_seen
from sublayer.nn.attention.pattern import Sight
from sublayer.nn.position.none import NoPosition
from sublayer.nn.scene import Scene

JOB = "attention on blocks and tokens"
"""The job of its fast paths: (q, k, v, stairs, valid, dropout), then run with the same."""
CHUNK = 64
"""Queries that share their keys in PyTorch."""


@dataclass(frozen=True)
class Staircase:
    """Keys are those of `blocks`, then of `tokens`, the first of which begins a block. Queries are the last tokens."""

    length: int
    """Number of queries."""
    tokens: int
    blocks: int
    """Number of blocks before that of the last token."""
    stride: int
    """Tokens of a block."""
    each: int = 1
    """Keys of a block."""

    @property
    def far(self) -> int:
        """Number of keys before those of tokens."""
        return self.blocks * self.each

    @property
    def before(self) -> int:
        """Number of blocks before the first token."""
        return self.blocks - (self.tokens - 1) // self.stride

    def sees(self, queries: slice) -> tuple[Int[Tensor, " Q"], Int[Tensor, " Q"]]:
        """For each of these queries, how many keys of blocks it sees, and the first token; the last is itself."""
        w_Q = torch.arange(self.tokens - self.length, self.tokens)[queries]
        return (self.before + w_Q // self.stride) * self.each, w_Q - w_Q % self.stride

    @property
    def chunks(self) -> Iterator[tuple[slice, int, slice]]:
        """Neighbouring queries with the number of blocks' keys and the tokens that any of them sees."""
        first = self.tokens - self.length
        for start in range(0, self.length, CHUNK):
            end = min(start + CHUNK, self.length)
            lo = (first + start) // self.stride * self.stride
            seen = (self.before + (first + end - 1) // self.stride) * self.each
            yield slice(start, end), seen, slice(lo, first + end)

    @property
    def pairs(self) -> int:
        """Query–key pairs that are multiplied in each head, masked ones included."""
        return sum(
            (queries.stop - queries.start) * (blocks + tokens.stop - tokens.start)
            for queries, blocks, tokens in self.chunks
        )

    def mask(self, queries: slice, blocks: int, tokens: slice) -> Bool[Tensor, "Q M"]:
        """Who sees whom, in one chunk."""
        seen_Q, lo_Q = self.sees(queries)
        w_Q1, j_M = (
            torch.arange(self.tokens - self.length, self.tokens)[queries, None],
            torch.arange(self.tokens)[tokens],
        )
        return torch.cat([torch.arange(blocks) < seen_Q[:, None], (j_M >= lo_Q[:, None]) & (j_M <= w_Q1)], dim=1)


@lru_cache(maxsize=64)
def bands(stairs: Staircase) -> tuple[Band, Band]:
    """What queries see: blocks, and tokens."""
    seen_L, lo_L = stairs.sees(slice(None))
    w_L = torch.arange(stairs.tokens - stairs.length, stairs.tokens)
    own = Band((stairs.far + lo_L).int(), (stairs.far + w_L + 1).int())
    return Band(torch.zeros_like(seen_L).int(), seen_L.int()), own


def attend(
    q_BHLK: Float[Tensor, "B H L K"],
    k_BGMK: Float[Tensor, "B G M K"],
    v_BGMK: Float[Tensor, "B G M K"],
    stairs: Staircase,
    valid_BM: Bool[Tensor, "#B M"] | None,
    dropout: float,
) -> Float[Tensor, "B H L K"]:
    """softmax(q kᵀ/√K) v. `valid_BM`: False on keys that nobody sees."""
    path = paths.find(JOB, q_BHLK, k_BGMK, v_BGMK, stairs, valid_BM, dropout)
    if path is not None:
        return path.run(q_BHLK, k_BGMK, v_BGMK, stairs, valid_BM, dropout)
    found = []
    for queries, blocks, tokens in stairs.chunks:
        own = slice(stairs.far + tokens.start, stairs.far + tokens.stop)
        k, v = (_cut(x, blocks, own) for x in (k_BGMK, v_BGMK))
        # A query by itself is the last token, and its block the last: it sees all keys.
        mask = None if stairs.length == 1 else stairs.mask(queries, blocks, tokens).to(q_BHLK.device)[None, None]
        if valid_BM is not None:
            valid_B11M = _cut(valid_BM[:, None, :, None], blocks, own).transpose(2, 3)
            mask = valid_B11M if mask is None else mask & valid_B11M
        q_BHQK = q_BHLK[:, :, queries]
        scene = Scene(torch.arange(q_BHQK.shape[2])[None])
        found.append(attend_seen(q_BHQK, k, v, Sight(mask), NoPosition(), scene, dropout=dropout))
    return found[0] if len(found) == 1 else torch.cat(found, dim=2)


def _cut(x_BGMK: Tensor, blocks: int, own: slice) -> Tensor:
    """The first `blocks` keys, which are blocks', then those of the query's own block."""
    if own.start == blocks:
        return x_BGMK[:, :, : own.stop]
    return torch.cat([x_BGMK[:, :, :blocks], x_BGMK[:, :, own]], dim=2)


def _serves(q: Tensor, k: Tensor, v: Tensor, stairs: Staircase, valid: Tensor | None, dropout: float) -> bool:
    return native.serves(q, k, v, dropout)


def _run(q: Tensor, k: Tensor, v: Tensor, stairs: Staircase, valid: Tensor | None, dropout: float) -> Tensor:
    return native.attend_bands(q, k, v, None, Terms(bands(stairs), valid, dropout=dropout))


paths.register(paths.FastPath(JOB, "C attention", native.why_not, _serves, _run))
