"""Attention of sorted tokens, tile by tile: what buckets and chunks allow, and no more memory than a few tiles need."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float, Int, Shaped
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from sublayer.nn.attention.buckets import Grid, without_autocast

ITSELF = -1e5
"""Score of a query with its own key."""
HIDDEN = -1e30
"""Score of a key that is not seen: below a query's own, and finite in every row."""
LEAST = -80.0
"""exp takes ten times as long where it underflows; of a sum of weights of which one is 1, this is nothing."""
AT_ONCE = 2**19
"""Scores that are formed at a time, so that the passes over them stay in the processor's cache."""
NOWHERE = -(2**24)
"""Label of what stands before and after the sorted tokens, farther from all others than any reach."""


@dataclass(frozen=True)
class Tiles:
    """`width` sorted tokens in tiles of queries, and how many keys before its tile a query may see."""

    width: int
    grid: Grid

    @property
    def size(self) -> int:
        """Sorted chunks are tiles; of those counted by rank, which begin anywhere, half is the better size."""
        whole = self.grid.seen // 2
        half = self.grid.causal and whole % 2 == 0 and whole >= 32
        return min(whole // (2 if half else 1), self.width)

    @property
    def count(self) -> int:
        return -(-self.width // self.size)

    @property
    def steps(self) -> int:
        """Tiles before a query's own."""
        return min(-(-(self.grid.seen - 1) // self.size) if self.grid.causal else 1, self.count - 1)

    @property
    def seen(self) -> int:
        """Keys of a tile of queries."""
        return (self.steps + 1) * self.size

    @property
    def padded(self) -> int:
        return self.count * self.size

    @property
    def pairs(self) -> int:
        return self.padded * self.seen

    @classmethod
    def after(cls, memory: int, length: int, grid: Grid) -> Tiles:
        """For the tokens that are in sight, and those of the segment."""
        return cls(min(memory, grid.buckets * grid.seen) + length, grid)

    def blocks(self, rows: int) -> Iterator[slice]:
        """Rows that are computed at a time."""
        some = max(1, AT_ONCE // self.pairs)
        return (slice(first, min(first + some, rows)) for first in range(0, rows, some))

    def queries(self, x_GPK: Shaped[Tensor, "G P K"]) -> Shaped[Tensor, "Gn T K"]:
        return x_GPK.reshape(-1, self.size, x_GPK.shape[-1])

    def keys(self, x_GPK: Shaped[Tensor, "G P K"], outside: int = 0) -> Shaped[Tensor, "Gn X K"]:
        """Those of each tile; a view, where there is one row."""
        x_GPK = F.pad(x_GPK, (0, 0, self.steps * self.size, 0), value=outside)
        return x_GPK.unfold(1, self.seen, self.size).transpose(2, 3).reshape(-1, self.seen, x_GPK.shape[-1])

    def summed(self, x_tXK: Float[Tensor, "Gn X K"]) -> Float[Tensor, "G P K"]:
        """The transpose of `keys`."""
        pieces = x_tXK.unflatten(0, (-1, self.count)).unflatten(2, (self.steps + 1, self.size))
        total_GnTK = pieces[:, :, -1].clone()
        for step in range(1, self.steps + 1):
            total_GnTK[:, :-step] += pieces[:, step:, -1 - step]
        return total_GnTK.flatten(1, 2)


class Tiled(torch.autograd.Function):
    """For each token and round Σ_j e_j v_j, Σ_j e_j and the largest score t, where e_j = exp(s_j − t)/n_j for a key
    that is seen in n_j rounds. Scores are formed again in the backward pass; there is no second derivative."""

    @staticmethod
    def forward(
        ctx: Any,
        q_GPK: Float[Tensor, "G P K"],
        k_GPK: Float[Tensor, "G P K"],
        v_GPK: Float[Tensor, "G P K"],
        own_GP: Int[Tensor, "G P"],
        label_GPR: Int[Tensor, "G P R"],
        tiles: Tiles,
        dropout: float,
    ) -> tuple[Float[Tensor, "G P K"], Float[Tensor, "G P"], Float[Tensor, "G P"]]:
        G, P, _ = q_GPK.shape
        wide = torch.promote_types(q_GPK.dtype, torch.float32)
        y_GPK, total_GP, top_GP = torch.empty_like(v_GPK), *(q_GPK.new_empty(G, P, dtype=wide) for _ in range(2))
        met, left = [], []
        with without_autocast(q_GPK):
            for some in tiles.blocks(G):
                met.append(_met(own_GP[some], label_GPR[some], tiles))
                weight_tTX, top_tT1 = _weights(q_GPK[some], k_GPK[some], met[-1], tiles)
                top_GP[some] = top_tT1.view(-1, P)
                total_GP[some] = weight_tTX.sum(-1).view(-1, P)
                if dropout:
                    left.append(torch.rand_like(weight_tTX) >= dropout)
                    weight_tTX.mul_(left[-1]).div_(1 - dropout)
                y_GPK[some] = (weight_tTX.to(v_GPK.dtype) @ tiles.keys(v_GPK[some])).view(-1, P, v_GPK.shape[-1])
        ctx.tiles, ctx.dropout = tiles, dropout
        ctx.save_for_backward(q_GPK, k_GPK, v_GPK, top_GP, *met, *left)
        ctx.mark_non_differentiable(top_GP)
        return y_GPK, total_GP, top_GP

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_y_GPK: Tensor, grad_total_GP: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:  # pyright: ignore[reportIncompatibleMethodOverride]
        tiles, (q_GPK, k_GPK, v_GPK, top_GP, *stored) = ctx.tiles, ctx.saved_tensors
        grads = [torch.empty_like(x) for x in (q_GPK, k_GPK, v_GPK)]
        blocks = list(tiles.blocks(len(q_GPK)))
        for n, some in enumerate(blocks):
            top_tT1 = top_GP[some].reshape(-1, tiles.size, 1)
            weight_tTX, _ = _weights(q_GPK[some], k_GPK[some], stored[n], tiles, top_tT1)
            grad_y_tTK = tiles.queries(grad_y_GPK[some])
            slope_tTX = (grad_y_tTK @ tiles.keys(v_GPK[some]).transpose(1, 2)).to(weight_tTX.dtype)
            used_tTX = weight_tTX
            if ctx.dropout:
                left_tTX = stored[len(blocks) + n]
                slope_tTX.mul_(left_tTX).div_(1 - ctx.dropout)
                used_tTX = (weight_tTX * left_tTX).div_(1 - ctx.dropout)
            grads[2][some] = tiles.summed(used_tTX.to(v_GPK.dtype).transpose(1, 2) @ grad_y_tTK)
            slope_tTX.add_(grad_total_GP[some].reshape(-1, tiles.size, 1)).mul_(weight_tTX)
            own(slope_tTX).zero_()  # the score of a query with its own key is a constant
            slope_tTX = slope_tTX.to(q_GPK.dtype)
            grads[0][some] = (slope_tTX @ tiles.keys(k_GPK[some])).view_as(q_GPK[some])
            grads[1][some] = tiles.summed(slope_tTX.transpose(1, 2) @ tiles.queries(q_GPK[some]))
        return *grads, None, None, None, None


def near(query: Tensor, key: Tensor, reach: int) -> Tensor:
    """1 where labels are of one bucket, and of the query's chunk or one of the `reach` before, else 0. By arithmetic:
    comparisons of numbers, and what is done with their outcomes, take several times as long."""
    return ((2 * query - reach) - 2 * key).abs_().neg_().add_(reach + 1).clamp_(0, 1)


def own(x_tTX: Tensor) -> Tensor:
    """What belongs to a query and its own key; a view."""
    return x_tTX.diagonal(x_tTX.shape[-1] - x_tTX.shape[-2], -2, -1)


def _met(own_GP: Tensor, label_GPR: Tensor, tiles: Tiles) -> Int[Tensor, "Gn T X"]:
    """In how many rounds a key is seen; 0 if it is not seen in this one."""
    query_tT1, key_tX1 = tiles.queries(own_GP[..., None]), tiles.keys(own_GP[..., None], NOWHERE)
    met_tTX = near(query_tT1, key_tX1.transpose(1, 2), tiles.grid.reach)
    if tiles.grid.causal:
        before_TX = torch.ones(tiles.size, tiles.seen, dtype=torch.int32, device=own_GP.device)
        met_tTX *= before_TX.tril_(tiles.seen - tiles.size)
    if label_GPR.shape[-1] > 1:
        query_tTR, key_tXR = tiles.queries(label_GPR), tiles.keys(label_GPR)
        total_tTX = torch.zeros_like(met_tTX)
        for r in range(label_GPR.shape[-1]):
            total_tTX += near(query_tTR[..., r : r + 1], key_tXR[:, None, :, r], tiles.grid.reach)
        met_tTX *= total_tTX
    return met_tTX.to(torch.int8)


def _weights(
    q_GPK: Tensor, k_GPK: Tensor, met_tTX: Tensor, tiles: Tiles, top_tT1: Tensor | None = None
) -> tuple[Float[Tensor, "Gn T X"], Float[Tensor, "Gn T 1"]]:
    wide = torch.promote_types(q_GPK.dtype, torch.float32)
    score_tTX = (tiles.queries(q_GPK) @ tiles.keys(k_GPK).transpose(1, 2)).to(wide)
    own(score_tTX).fill_(ITSELF)
    seen_tTX, total_tTX = met_tTX.clamp(max=1).to(wide), met_tTX.clamp(min=1).to(wide)
    if top_tT1 is None:
        top_tT1 = score_tTX.add_((1 - seen_tTX).mul_(HIDDEN)).amax(-1, keepdim=True)
    # A hidden score may be above the top, if none of those seen is.
    return score_tTX.sub_(top_tT1).clamp_(LEAST, 0).exp_().mul_(seen_tTX.div_(total_tTX)), top_tT1
