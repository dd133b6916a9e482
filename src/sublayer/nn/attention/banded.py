"""Attention along bands in PyTorch: work and memory follow what queries see. The twin of native.c.

Each tile of a band's queries gets the keys that any of them sees, gathered. All tiles are padded to the widest, so that
they have one shape and go through attention as one batch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

from sublayer.nn import paths
from sublayer.nn.attention.along import Terms, seen_by, terms_and_bias, why_no_bands
from sublayer.nn.attention.bands import Band
from sublayer.nn.attention.kernel.base import View
from sublayer.nn.attention.kernel.softmax import BANDS
from sublayer.nn.attention.tiles import tiles_of, work

if TYPE_CHECKING:
    from sublayer.nn.attention.multihead import MultiHead


def attend(
    q_BHLK: Float[Tensor, "B H L K"],
    k_BGMK: Float[Tensor, "B G M K"],
    v_BGMK: Float[Tensor, "B G M K"],
    bias_BHLR: Float[Tensor, "#B #H #L R"] | None,
    terms: Terms,
) -> Float[Tensor, "B H L K"]:
    if not terms.bands:  # zeros whose gradients are zeros, as where a mask hides all
        return 0 * (q_BHLK + (k_BGMK + v_BGMK).sum())
    found = [_attend_band(q_BHLK, k_BGMK, v_BGMK, bias_BHLR, terms, band) for band in terms.bands]
    if len(found) == 1 and found[0][0] is None:
        return found[0][1].view_as(q_BHLK)
    return _merged(found, q_BHLK)


Found = tuple[Tensor | None, Tensor, Tensor]
"""Of one band: the indices of its queries among all H · L (None: all), their outputs (B, Q, K), and the log Σ exp of
their scores (B, Q, 1)."""


def _merged(found: list[Found], q_BHLK: Tensor) -> Float[Tensor, "B H L K"]:
    """y = Σ_b e^(log_b − log) y_b, where log = log Σ_b e^(log_b). Bands of few queries take no more room than those."""
    B, H, L, K = q_BHLK.shape
    low = found[0][2].new_full((B, H * L, 1), torch.finfo(found[0][2].dtype).min / 4)
    top, total, y = low, torch.zeros_like(low), q_BHLK.new_zeros(B, H * L, K)
    for at, _, log in found:
        log = log.detach()
        top = torch.maximum(top, log) if at is None else top.index_copy(1, at, torch.maximum(top[:, at], log))
    parts = [(log - (top if at is None else top[:, at])).exp() for at, _, log in found]
    for (at, _, _), part in zip(found, parts, strict=True):
        total = total + part if at is None else total.index_add(1, at, part)
    for (at, part_y, _), part in zip(found, parts, strict=True):
        given = (part / (total if at is None else total[:, at])).to(y.dtype) * part_y
        y = y + given if at is None else y.index_add_(1, at, given)
    return y.view_as(q_BHLK)


def _attend_band(
    q_BHLK: Tensor, k_BGMK: Tensor, v_BGMK: Tensor, bias_BHLR: Tensor | None, terms: Terms, band: Band
) -> Found:
    """A query that sees nothing of it has zeros, and a log far below."""
    (_, H, L, K), G, device = q_BHLK.shape, k_BGMK.shape[1], q_BHLK.device
    tiles = tiles_of(band)
    query_nT, key_nX, seen_nTX = (x.to(device) for x in (tiles.query_nT, tiles.key_nX, tiles.seen_nTX))
    heads = (
        torch.arange(H, device=device)
        if band.heads is None
        else torch.tensor([h for h, own in enumerate(band.heads) if own], device=device)
    )
    whole = band.heads is None
    groups = torch.arange(G, device=device) if whole else heads // (H // G)
    T = query_nT.shape[1]

    def gathered(x_BGMK: Tensor, which: Tensor, at_nX: Tensor) -> Tensor:
        """(B, g, n, X, K): the heads and places asked for."""
        x_BGMK = x_BGMK if whole else x_BGMK.index_select(1, which)
        return x_BGMK.index_select(2, at_nX.clamp(min=0).flatten()).unflatten(2, at_nX.shape)

    q_BhnTK = gathered(q_BHLK, heads, query_nT)
    k_BgnXK, v_BgnXK = gathered(k_BGMK, groups, key_nX), gathered(v_BGMK, groups, key_nX)
    r = len(heads) // len(groups)
    # Queries of one group are one matrix, so that no key is repeated.
    q_BgnRK = (q_BhnTK * K**-0.5).unflatten(1, (len(groups), r)).transpose(2, 3).flatten(3, 4)
    scores = (q_BgnRK @ k_BgnXK.transpose(-1, -2)).unflatten(3, (r, T)).transpose(2, 3).flatten(1, 2)  # (B, h, n, T, X)
    scores = scores.to(torch.promote_types(scores.dtype, torch.float32))
    low = torch.finfo(scores.dtype).min / 4
    if bias_BHLR is not None:
        scores = scores + _bias(bias_BHLR.clamp(min=low), heads, query_nT, key_nX, terms.zero)
    hidden = ~seen_nTX
    if terms.valid_BM is not None:
        hidden = hidden | ~terms.valid_BM[:, key_nX][:, None, :, None]
    scores = scores.masked_fill(hidden, low)
    top = scores.detach().amax(-1, keepdim=True)
    # Scores are the largest arrays: in place, and divided after the product.
    blind, e = top <= low, scores.sub_(top).exp_()
    total = e.sum(-1, keepdim=True)
    weights = F.dropout(e, terms.dropout) if terms.dropout else e
    weights = weights.to(v_BgnXK.dtype).unflatten(1, (len(groups), r)).transpose(2, 3).flatten(3, 4)
    y = (weights @ v_BgnXK).unflatten(3, (r, T)).transpose(2, 3).flatten(1, 2)  # (B, h, n, T, K)
    y, log = (y / total).masked_fill(blind, 0), (top + total.log()).masked_fill(blind, low)
    count = len(band.lo)  # after them, the last tile is filled up
    y, log = (x.flatten(2, 3)[:, :, :count].flatten(1, 2) for x in (y, log))
    if band.queries is None and whole:
        return None, y, log
    return (heads[:, None] * L + query_nT.flatten()[:count]).flatten(), y, log


def _bias(bias_BHLR: Tensor, heads: Tensor, query_nT: Tensor, key_nX: Tensor, zero: int) -> Tensor:
    """(B or 1, h or 1, n, T, X): the bias of each query on each of its tile's keys."""
    H, L, R = bias_BHLR.shape[1:]
    bias = bias_BHLR if H == 1 or len(heads) == H else bias_BHLR.index_select(1, heads)
    i_nT1 = query_nT.clamp(min=0)[..., None]
    at_nTX = (zero + key_nX[:, None] - i_nT1).clamp(0, R - 1)
    row_nT1 = torch.zeros_like(i_nT1) if L == 1 else i_nT1
    return bias.flatten(2).index_select(2, (row_nT1 * R + at_nTX).flatten()).unflatten(2, at_nTX.shape)


def _serves(q_BHLK: Tensor, k_BGMK: Tensor, v_BGMK: Tensor, view: View) -> bool:
    heads, length = q_BHLK.shape[1:3]
    bands = seen_by(view, heads) if length > 1 else None
    return bands is not None and 2 * work(bands, heads) <= heads * length * k_BGMK.shape[2]


def _run(q_BHLK: Tensor, k_BGMK: Tensor, v_BGMK: Tensor, view: View) -> Tensor:
    bands = seen_by(view, q_BHLK.shape[1])
    assert bands is not None
    terms, bias = terms_and_bias(q_BHLK, view, bands)
    return attend(view.position.query(q_BHLK, view.scene), k_BGMK, v_BGMK, bias, terms)


def _why_not(part: MultiHead, mode: paths.Mode) -> str | None:
    pattern = part.config.pattern.within(part.config.span.begins)
    return paths.UNRELATED if pattern.triangle or pattern.unrestricted else why_no_bands(part, mode)


paths.register(paths.FastPath(BANDS, "bands of keys (PyTorch)", _why_not, _serves, _run))
