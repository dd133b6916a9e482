"""Attention within buckets: over the sorted text, tile by tile; or of a few queries over the last tokens of theirs.

In both, a key that is met in several rounds counts once, since its weight is divided by the number of those rounds; and
a query's own key has a score so low that it has weight only where there is no other.
"""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn import functional as F

from sublayer.nn.attention.buckets import Grid, Hashed
from sublayer.nn.attention.tiled import HIDDEN, ITSELF, NOWHERE, Tiled, Tiles, near

BUCKETS = "attention within buckets"
"""The job of paths that do what `by_tiles` does, with the same arguments."""


def by_tiles(
    q_BHLK: Float[Tensor, "B H L K"],
    k_BHMK: Float[Tensor, "B H M K"],
    v_BHMK: Float[Tensor, "B H M K"],
    code_BHRM: Int[Tensor, "B H R M"],
    alive_BHRP: Bool[Tensor, "B H R P"] | None,
    grid: Grid,
    dropout: float,
) -> Float[Tensor, "B H L K"]:
    """Of the last L tokens over all M. `alive`: which of those before are in sight; None: there is room for all."""
    (B, H, R, M), L = code_BHRM.shape, q_BHLK.shape[2]
    tiles = Tiles.after(M - L, L, grid)
    sortable_BHRM = code_BHRM
    if alive_BHRP is not None:  # the others come first, and are left out
        sortable_BHRM = code_BHRM.masked_fill(F.pad(~alive_BHRP, (0, L)), -1)
    order_BHRW = sortable_BHRM.argsort(dim=-1)[..., -tiles.width :]
    index_W = torch.arange(tiles.width, device=q_BHLK.device)
    where_BHRL = torch.zeros_like(code_BHRM).scatter_(-1, order_BHRW, index_W.expand_as(order_BHRW))[..., M - L :]

    spare = tiles.padded - tiles.width
    order_BHRP = torch.cat([order_BHRW, order_BHRW[..., -1:].expand(-1, -1, -1, spare)], dim=-1)
    own_BHRP = F.pad(grid.labels(code_BHRM.gather(-1, order_BHRW)), (0, spare), value=NOWHERE)
    label_BHMR = grid.labels(code_BHRM.transpose(2, 3))
    # Earlier tokens ask nothing; what is computed in their place is not used.
    sorted_ = (take(q_BHLK, (order_BHRP - (M - L)).clamp(min=0)), take(k_BHMK, order_BHRP), take(v_BHMK, order_BHRP))
    of_rows = (x.flatten(0, 2) for x in (*sorted_, own_BHRP, take(label_BHMR, order_BHRP)))
    y_GPK, total_GP, top_GP = Tiled.apply(*of_rows, tiles, dropout)  # pyright: ignore[reportGeneralTypeIssues]

    # Back to the order of the text, and all rounds together.
    top_BHRL = top_GP.view(B, H, R, -1).gather(-1, where_BHRL)
    total_BHRL = total_GP.view(B, H, R, -1).gather(-1, where_BHRL)
    share_BHRL = (top_BHRL - top_BHRL.amax(2, keepdim=True)).exp()
    share_BHRL = share_BHRL / (share_BHRL * total_BHRL).sum(2, keepdim=True)
    y_BGLK = take(y_GPK.view(B, H * R, tiles.padded, -1), where_BHRL.flatten(1, 2))
    return (y_BGLK.unflatten(1, (H, R)) * share_BHRL[..., None].to(y_BGLK.dtype)).sum(2)


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
    old_BHLXR = grid.labels(take(past.code.buffer, key_BHLX))
    met_BHLXR = near(query_BHLR[..., None, :], old_BHLXR, grid.reach)
    own_round_BHLTR = met_BHLXR.unflatten(3, (-1, T)).diagonal(0, 3, 5)
    seen_BHLX = own_round_BHLTR.transpose(3, 4).flatten(3).bool() & found_BHLX
    among_LL = torch.ones(L, L, dtype=torch.bool, device=q_BHLK.device).tril()
    seen_BHLL = near(query_BHLR[:, :, :, None], query_BHLR[:, :, None], grid.reach).any(-1) & among_LL

    wide = torch.promote_types(q_BHLK.dtype, torch.float32)
    # From the buffers: what they hold would be copied to be indexed.
    k_BHLXK, v_BHLXK = (take(x.buffer, key_BHLX) for x in (past.k, past.v))
    old_BHLX = (q_BHLK[..., None, :] @ k_BHLXK.transpose(-1, -2))[..., 0, :]
    new_BHLL = (q_BHLK @ k_BHLK.transpose(-1, -2)).to(wide)
    new_BHLL = new_BHLL.masked_fill(among_LL & among_LL.T, ITSELF).masked_fill(~seen_BHLL, HIDDEN)
    old_BHLX = old_BHLX.to(wide) - met_BHLXR.sum(-1).clamp(min=1).to(wide).log()
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
