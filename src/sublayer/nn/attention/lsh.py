"""LSH attention: a query sees those keys that hashing puts into its bucket, since they point its way."""

from __future__ import annotations

from typing import Annotated

import torch
from jaxtyping import Float
from pydantic import Field, model_validator
from torch import Tensor
from torch.nn import functional as F

from sublayer.nn import paths
from sublayer.nn.attention import lsh_reference as reference
from sublayer.nn.attention.bucketed import by_slots, by_tiles
from sublayer.nn.attention.buckets import Grid, Hashed, draw_buckets
from sublayer.nn.attention.heads import Looking, join_heads, split_heads
from sublayer.nn.attention.kernel.random_features import RandomMatrix
from sublayer.nn.attention.tiled import Tiles
from sublayer.nn.config import Count
from sublayer.nn.linear import linear
from sublayer.nn.part import Slot, Work
from sublayer.nn.scene import Scene

FEW = 8
"""Queries for which the last keys of their buckets are looked up one by one; for more, the text is sorted."""

Rounds = Annotated[int, Field(ge=1, le=100)]
"""How often a token is hashed; rounds in which two tokens meet are counted in 8 bits."""


class Lsh(Looking):
    """softmax(q kᵀ/√K) v over keys that share a bucket with the query in some round (Kitaev et al. 2020, section 2).

    Queries and keys are one projection: k_j = √K q_j/|q_j|, so that scores are q_i · q_j/|q_j|, as in the authors'
    code; the paper does not say that keys are of length √K. Hashes are h(x) = argmax([xR; −xR]), with one R in each
    round, the same for all heads. Softmax runs over the union of all rounds: a key that is met in r of them has its
    score lowered by log r. A token attends to itself only if there is nobody else. Padding is in no bucket.

    Looking both ways is the paper's form: tokens sorted by bucket, then by position, are cut into chunks, and a chunk
    sees itself and the one before, as far as they are of one bucket. The first chunk sees only itself; in the authors'
    code it sees the last one too, and neighbouring chunks see each other across buckets.

    Looking back deviates from the paper, where later tokens move the borders of chunks, and so change who sees whom.
    Here chunks are cut within each bucket, by the rank of a token among the earlier tokens of the bucket, and a chunk
    sees itself and the one before it in its bucket. So the result does not depend on later tokens, on where segments
    are cut, or on padding, and the state is the last two chunks of every bucket.

    The matrices are drawn again after every step of training, never in evaluation; checkpoints hold them.
    """

    class Config(Looking.Config, tag="lsh"):
        rounds: Rounds = 4
        """Hashes of each token; it sees what shares a bucket with it in any."""
        eval_rounds: Rounds | None = None
        """Rounds in evaluation; None: as many as in training. Cost counts these."""
        buckets: Annotated[int, Field(ge=2, le=1024)] = 32
        """Of each round: even, since a direction and its opposite make two."""
        chunk: Count = 64
        """Tokens of a chunk. A query sees those of its own in its bucket, and of the one before."""

        @model_validator(mode="after")
        def _possible(self) -> Lsh.Config:
            if self.buckets % 2:
                raise ValueError(f"buckets={self.buckets}: an odd number; use {self.buckets - 1} or {self.buckets + 1}")
            if self.eval_rounds is not None and self.eval_rounds < self.rounds:
                raise ValueError(
                    f"eval_rounds={self.eval_rounds} is less than rounds={self.rounds}; use at least as many, or leave "
                    "it out"
                )
            if self.kv_heads not in (None, self.heads):
                raise ValueError(
                    f"kv_heads={self.kv_heads}: queries are their own keys, so there are as many of each; leave it out"
                )
            return self

        @property
        def bounded(self) -> bool:
            return True

        @property
        def grid(self) -> Grid:
            return Grid(self.buckets, self.chunk, causal=not self.both_ways)

        @property
        def all_rounds(self) -> int:
            return self.eval_rounds or self.rounds

        def check_length(self, length: int) -> None:
            if length < self.chunk:
                raise ValueError(
                    f"chunk={self.chunk} is longer than texts of {length} tokens, which no bucket can fill; use a "
                    f"chunk up to {length}, or longer texts"
                )

        def params(self, slot: Slot) -> int:
            H, _, K = self.sizes(slot.dim)
            return slot.dim * 3 * H * K + ((2 * H * K + slot.dim) if self.bias else 0)

        def flops(self, slot: Slot, work: Work) -> int:
            (H, _, K), L, R = self.sizes(slot.dim), work.length, self.all_rounds
            memory = 0 if self.both_ways else Hashed.stored(work.memory, R, self.grid)
            pairs = R * Tiles.after(memory, L, self.grid).pairs
            if memory and L <= FEW:
                pairs = L * (R * self.grid.seen + L)
            return 2 * L * slot.dim * 3 * H * K + 2 * H * L * K * R * (self.buckets // 2) + 2 * 2 * H * K * pairs

        def state_size(self, slot: Slot, work: Work) -> int:
            if self.both_ways:
                return 0
            (H, _, K), R = self.sizes(slot.dim), self.all_rounds
            stored = Hashed.stored(Hashed.stored(work.memory, R, self.grid) + work.length, R, self.grid)
            # Keys, values and codes; slots, the spare one and counts.
            return H * (stored * (2 * K + R) + R * (self.buckets * (self.grid.seen + 1) + 1))

    def __init__(self, config: Config, slot: Slot) -> None:
        super().__init__()
        self.config, self.grid = config, config.grid
        self.heads, _, self.head_dim = config.sizes(slot.dim)
        self.query_value = linear(slot.dim, 2 * self.heads * self.head_dim, config.bias)
        self.output = linear(self.heads * self.head_dim, slot.dim, config.bias)
        features = config.all_rounds * config.buckets // 2
        self.hashes = RandomMatrix(features, self.head_dim, redraw=1, independent=True)

    @property
    def twin(self) -> str:
        return "nn/attention/lsh_reference.py"

    def score_weights(self) -> dict[str, slice]:
        return {"query_value.weight": slice(0, self.heads * self.head_dim)}

    def forward(
        self, x_BLD: Float[Tensor, "B L D"], scene: Scene, state: Hashed | None = None
    ) -> tuple[Float[Tensor, "B L D"], Hashed | None]:
        q_BHLK, v_BHLK = (split_heads(x, self.heads) for x in self.query_value(x_BLD).chunk(2, dim=-1))
        bucket_BHRL = draw_buckets(q_BHLK, *self._matrix(state))
        # In float32 at least: in half precision squares overflow.
        k_BHLK = F.normalize(q_BHLK.to(torch.promote_types(q_BHLK.dtype, torch.float32)), dim=-1).to(q_BHLK.dtype)
        if self.config.both_ways:
            y_BHLK, after = self._both_ways(q_BHLK, k_BHLK, v_BHLK, bucket_BHRL, scene), None
        else:
            y_BHLK, after = self._back(q_BHLK, k_BHLK, v_BHLK, bucket_BHRL, scene, state)
        return self.output(join_heads(y_BHLK)), after

    @property
    def _dropout(self) -> float:
        return self.config.dropout if self.training else 0.0

    def _matrix(self, state: Hashed | None) -> tuple[Tensor, int]:
        """Of all rounds in use, and their number; a text goes on with the rounds that it began with."""
        rounds = self.config.rounds if self.training else self.config.all_rounds
        rounds = rounds if state is None else state.rounds
        return self.hashes()[: rounds * self.config.buckets // 2], rounds

    def _both_ways(self, q_BHLK: Tensor, k_BHLK: Tensor, v_BHLK: Tensor, bucket_BHRL: Tensor, scene: Scene) -> Tensor:
        if paths.slow():
            return reference.both_ways(q_BHLK, k_BHLK, v_BHLK, bucket_BHRL, scene.valid_BL, self.grid)
        code_BHRL, _ = self.grid.codes(bucket_BHRL, scene.valid_BL, None)
        return by_tiles(q_BHLK, k_BHLK, v_BHLK, code_BHRL, None, self.grid, self._dropout)

    def _back(
        self, q_BHLK: Tensor, k_BHLK: Tensor, v_BHLK: Tensor, bucket_BHRL: Tensor, scene: Scene, state: Hashed | None
    ) -> tuple[Tensor, Hashed]:
        past = Hashed.empty(k_BHLK, v_BHLK, bucket_BHRL.shape[2], self.grid) if state is None else state
        code_BHRL, count_BHRn = self.grid.codes(bucket_BHRL, scene.valid_BL, past.count_BHRn)
        after = past.after(k_BHLK, v_BHLK, code_BHRL, count_BHRn, self.grid)
        if paths.slow():
            y_BHLK = reference.back(q_BHLK, k_BHLK, v_BHLK, bucket_BHRL, scene.valid_BL, past, self.grid)
        elif len(past.k) and scene.length <= FEW:
            y_BHLK = by_slots(q_BHLK, k_BHLK, v_BHLK, code_BHRL, past, self.grid, self._dropout)
        else:
            alive_BHRP, code_BHRM = None, code_BHRL
            if len(past.k):
                k_BHLK, v_BHLK = (torch.cat([old.value, x], dim=2) for old, x in ((past.k, k_BHLK), (past.v, v_BHLK)))
                old_BHRP = past.code.value.transpose(2, 3)
                code_BHRM = torch.cat([old_BHRP, code_BHRL], dim=-1)
                if old_BHRP.shape[-1] > self.grid.buckets * self.grid.seen:
                    alive_BHRP = self.grid.alive(old_BHRP, past.count_BHRn)
            y_BHLK = by_tiles(q_BHLK, k_BHLK, v_BHLK, code_BHRM, alive_BHRP, self.grid, self._dropout)
        return y_BHLK, after
