"""Attention within buckets: over the sorted text, tile by tile; or of a few queries over the last tokens of theirs.

In both, a key that is met in several rounds counts once, since its weight is divided by the number of those rounds; and
a query's own key has a score so low that it has weight only where there is no other.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn import functional as F

from sublayer.nn.attention.buckets import Grid, Hashed

ITSELF = -1e5
"""Score of a query with its own key."""
HIDDEN = -1e30
"""Score of a key that is not seen: below a query's own, and finite in every row."""


@dataclass(frozen=True)
class Tiles:
    """`width` sorted tokens in tiles of queries, and how many keys before its tile a query may see."""

    width: int
    grid: Grid

    @property
    def size(self) -> int:
        return min(self.grid.chunk, self.width)

    @property
    def count(self) -> int:
        return -(-self.width // self.size)

    @property
    def back(self) -> int:
        """Sorted chunks begin where tiles do, those counted by rank anywhere: of two chunks, the first token may be
        almost two tiles away."""
        return min(2 if self.grid.causal else 1, self.count - 1) * self.size

    @property
    def pairs(self) -> int:
        return self.count * self.size * (self.back + self.size)

    @classmethod
    def after(cls, memory: int, length: int, grid: Grid) -> Tiles:
        """For the tokens that are in sight, and those of the segment."""
        return cls(min(memory, grid.buckets * grid.seen) + length, grid)


def by_tiles(
    q_BHLK: Float[Tensor, "B H L K"],
    k_BHMK: Float[Tensor, "B H M K"],
    v_BHMK: Float[Tensor, "B H M K"],
    code_BHRM: Int[Tensor, "B H R M"],
    memory_alive_BHRP: Bool[Tensor, "B H R P"] | None,
    grid: Grid,
    dropout: float,
) -> Float[Tensor, "B H L K"]:
    """Of the last L tokens over all M."""
    L, M, R = q_BHLK.shape[2], k_BHMK.shape[2], code_BHRM.shape[2]
    tiles = Tiles.after(M - L, L, grid)
    sortable_BHRM = code_BHRM
    if memory_alive_BHRP is not None:  # what nobody will see comes first, and is left out
        dead_BHRM = F.pad(~memory_alive_BHRP, (0, L), value=False)
        sortable_BHRM = code_BHRM.masked_fill(dead_BHRM, -1)
    order_BHRW = sortable_BHRM.argsort(dim=-1)[..., -tiles.width :]

    start_n1 = torch.arange(tiles.count, device=q_BHLK.device)[:, None] * tiles.size
    at_nC = start_n1 + torch.arange(tiles.size, device=q_BHLK.device)
    at_nX = start_n1 + torch.arange(-tiles.back, tiles.size, device=q_BHLK.device)
    outside_nX = (at_nX < 0) | (at_nX >= tiles.width)
    query_BHRnC = order_BHRW[..., at_nC.clamp(max=tiles.width - 1)]
    key_BHRnX = order_BHRW[..., at_nX.clamp(0, tiles.width - 1)]

    label_BHMR = grid.labels(code_BHRM.transpose(2, 3))
    seen_BHRnCX, met_BHRnCX = _seen(take(label_BHMR, query_BHRnC), take(label_BHMR, key_BHRnX))
    seen_BHRnCX &= ~outside_nX[:, None]
    own_CX = torch.ones(tiles.size, tiles.back + tiles.size, dtype=torch.bool, device=q_BHLK.device)
    if grid.causal:
        seen_BHRnCX &= own_CX.tril(tiles.back)
    own_CX = own_CX.tril(tiles.back).triu(tiles.back)

    q_BHRnCK = take(q_BHLK, (query_BHRnC - (M - L)).clamp(min=0))
    score_BHRnCX = (q_BHRnCK @ take(k_BHMK, key_BHRnX).transpose(-1, -2)).to(_wide(q_BHLK))
    score_BHRnCX = score_BHRnCX.masked_fill(own_CX, ITSELF).masked_fill(~seen_BHRnCX, HIDDEN)
    top_BHRnC1 = score_BHRnCX.detach().amax(-1, keepdim=True)
    weight_BHRnCX = (score_BHRnCX - top_BHRnC1).exp()
    if met_BHRnCX is not None:
        weight_BHRnCX = weight_BHRnCX / met_BHRnCX
    dropped_BHRnCX = F.dropout(weight_BHRnCX, dropout) if dropout else weight_BHRnCX
    y_BHRnCK = dropped_BHRnCX.to(v_BHMK.dtype) @ take(v_BHMK, key_BHRnX)

    # Back to the order of the text, and all rounds together.
    where_BHRM = torch.zeros_like(code_BHRM).scatter_(-1, order_BHRW, _range_like(order_BHRW))
    where_BHRL = where_BHRM[..., M - L :]
    top_BHRL = top_BHRnC1.flatten(3).gather(-1, where_BHRL)
    total_BHRL = weight_BHRnCX.sum(-1).flatten(3).gather(-1, where_BHRL)
    share_BHRL = (top_BHRL - top_BHRL.amax(2, keepdim=True)).exp()
    share_BHRL = share_BHRL / (share_BHRL * total_BHRL).sum(2, keepdim=True)
    y_BHRLK = take(y_BHRnCK.flatten(1, 2).flatten(2, 3), where_BHRL.flatten(1, 2)).unflatten(1, (-1, R))
    return (y_BHRLK * share_BHRL[..., None].to(y_BHRLK.dtype)).sum(2)


def by_slots(
    q_BHLK: Float[Tensor, "B H L K"],
    k_BHLK: Float[Tensor, "B H L K"],
    v_BHLK: Float[Tensor, "B H L K"],
    code_BHRL: Int[Tensor, "B H R L"],
    past: Hashed,
    grid: Grid,
    dropout: float,
) -> Float[Tensor, "B H L K"]:
    """Of a segment's few tokens over the last of their buckets, and over each other."""
    L, T = q_BHLK.shape[2], grid.seen
    in_bucket_T = torch.arange(T, device=q_BHLK.device)
    bucket_BHRL1 = (code_BHRL // grid.span).clamp(max=grid.buckets - 1)[..., None]
    slot_BHRX = (bucket_BHRL1 * T + in_bucket_T).flatten(3)
    key_BHRLT = past.slot_BHRT.gather(-1, slot_BHRX).unflatten(-1, (L, T))
    key_BHLX = key_BHRLT.transpose(2, 3).flatten(3)
    found_BHLX = key_BHLX >= 0
    key_BHLX = key_BHLX.clamp(min=0)

    query_BHLR = grid.labels(code_BHRL.transpose(2, 3))
    old_BHLXR = grid.labels(take(past.code.value, key_BHLX))
    met_BHLXR = _near(query_BHLR[..., None, :], old_BHLXR)
    own_round_XR = torch.eye(code_BHRL.shape[2], dtype=torch.bool, device=q_BHLK.device).repeat_interleave(T, dim=0)
    seen_BHLX = (met_BHLXR & own_round_XR).any(-1) & found_BHLX
    among_LL = torch.ones(L, L, dtype=torch.bool, device=q_BHLK.device).tril()
    seen_BHLL = _near(query_BHLR[:, :, :, None], query_BHLR[:, :, None]).any(-1) & among_LL

    k_BHLXK, v_BHLXK = (take(x.value, key_BHLX) for x in (past.k, past.v))
    old_BHLX = (q_BHLK[..., None, :] @ k_BHLXK.transpose(-1, -2))[..., 0, :]
    new_BHLL = (q_BHLK @ k_BHLK.transpose(-1, -2)).to(_wide(q_BHLK))
    new_BHLL = new_BHLL.masked_fill(among_LL & among_LL.T, ITSELF).masked_fill(~seen_BHLL, HIDDEN)
    old_BHLX = old_BHLX.to(_wide(q_BHLK)) - met_BHLXR.sum(-1).clamp(min=1).to(_wide(q_BHLK)).log()
    score_BHLX = torch.cat([old_BHLX.masked_fill(~seen_BHLX, HIDDEN), new_BHLL], dim=-1)
    weight_BHLX = score_BHLX.softmax(-1)
    weight_BHLX = F.dropout(weight_BHLX, dropout) if dropout else weight_BHLX
    old_BHLX, new_BHLL = weight_BHLX.to(v_BHLK.dtype).split([key_BHLX.shape[-1], L], dim=-1)
    return (old_BHLX[..., None, :] @ v_BHLXK)[..., 0, :] + new_BHLL @ v_BHLK


def take(x_BHMZ: Tensor, index_BHX: Tensor) -> Tensor:
    """Rows of each head by their index along M, in any shape."""
    B, H, M, _ = x_BHMZ.shape
    first_BH = torch.arange(B * H, device=x_BHMZ.device).view(B, H, *(1 for _ in index_BHX.shape[2:])) * M
    return F.embedding(index_BHX + first_BH, x_BHMZ.flatten(0, 2))


def _near(query: Tensor, key: Tensor) -> Tensor:
    """Whether labels are of one bucket, and of the query's chunk or the one before."""
    return (query == key) | (query - 1 == key)


def _seen(query_BHRnCR: Tensor, key_BHRnXR: Tensor) -> tuple[Bool[Tensor, "B H R n C X"], Tensor | None]:
    """Whether a key is near in the round of its tile, and in how many rounds it is (None, if there is one)."""
    R = query_BHRnCR.shape[-1]
    near = [_near(query_BHRnCR[..., r][..., :, None], key_BHRnXR[..., r][..., None, :]) for r in range(R)]
    seen_BHRnCX = torch.stack([near[r][:, :, r] for r in range(R)], dim=2)
    if R == 1:
        return seen_BHRnCX, None
    met_BHRnCX = near[0].to(torch.int8)
    for one in near[1:]:
        met_BHRnCX += one
    return seen_BHRnCX, met_BHRnCX.clamp_(min=1)


def _wide(x: Tensor) -> torch.dtype:
    return torch.promote_types(x.dtype, torch.float32)


def _range_like(x_BHRW: Tensor) -> Tensor:
    return torch.arange(x_BHRW.shape[-1], device=x_BHRW.device).expand_as(x_BHRW)
