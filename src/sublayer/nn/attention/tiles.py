"""Attention by tiles: for patterns that give runs of keys, work and memory follow the runs.

Each tile of queries gets the keys of its runs, gathered. All tiles are padded to the number of keys of the widest, so
that those of all rows have one shape and go through attention as one batch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn import functional as F

from sublayer.nn import paths
from sublayer.nn.attention.blocks import followed, why_no_blocks
from sublayer.nn.attention.kernel.base import View
from sublayer.nn.attention.kernel.softmax import BLOCKS
from sublayer.nn.attention.pattern import Tiles, tiled

if TYPE_CHECKING:
    from sublayer.nn.attention.multihead import MultiHead


def _serves(q_BHLK: Tensor, k_BGMK: Tensor, view: View) -> bool:
    if not followed(view):
        return False
    return view.pattern.pairs(q_BHLK.shape[2], view.remembered) < q_BHLK.shape[2] * k_BGMK.shape[2] and (
        tiled(view.pattern, q_BHLK.shape[2], view.remembered) is not None
    )


def _why_not(part: MultiHead, mode: paths.Mode) -> str | None:
    pattern = part.config.pattern
    if pattern.triangle or pattern.unrestricted:
        return paths.UNRELATED
    if pattern.runs(4 * pattern.tile, 0) is None:
        return f"pattern={pattern.tag} gives no runs of keys"
    return why_no_blocks(part, mode)


def _run(
    q_BHLK: Float[Tensor, "B H L K"], k_BGMK: Float[Tensor, "B G M K"], v_BGMK: Float[Tensor, "B G M K"], view: View
) -> Float[Tensor, "B H L K"]:
    """Equal to `attend` under the pattern's mask."""
    (B, H, L, K), G, memory = q_BHLK.shape, k_BGMK.shape[1], view.remembered
    tiles = tiled(view.pattern, L, memory)
    assert tiles is not None
    n, T = len(tiles.runs), tiles.size
    q_BHLK = view.position.query(q_BHLK, view.scene)
    q_NHTK = F.pad(q_BHLK, (0, 0, 0, n * T - L)).view(B, H, n, T, K).transpose(1, 2).flatten(0, 1)
    key_nX = view.scene.once(
        ("tile keys", view.pattern, memory), lambda: torch.tensor(tiles.keys(), device=q_BHLK.device)
    )
    # (B, G, M, K) → (B, G, n·X, K) → (B·n, G, X, K); a padding key repeats key 0 and is masked
    k_NGXK, v_NGXK = (
        x.index_select(2, key_nX.clamp(min=0).flatten()).view(B, G, n, -1, K).transpose(1, 2).flatten(0, 1)
        for x in (k_BGMK, v_BGMK)
    )
    mask_n1TX = view.scene.once(("tile mask", view.pattern, memory), lambda: _mask(view, tiles, key_nX, L))
    mask = mask_n1TX if view.span is None else _faded(view, tiles, key_nX, mask_n1TX, q_BHLK.dtype)
    y_NHTK = F.scaled_dot_product_attention(
        q_NHTK, k_NGXK, v_NGXK, mask.repeat(B, 1, 1, 1), view.dropout, enable_gqa=G != H
    )
    return y_NHTK.view(B, n, H, T, K).transpose(1, 2).reshape(B, H, n * T, K)[:, :, :L]


def _orders(view: View, tiles: Tiles, key_nX: Tensor) -> tuple[Tensor, Tensor]:
    """Queries (n, T, 1) and keys (n, 1, X) by their order in the attended keys."""
    n, T = len(tiles.runs), tiles.size
    order_nT1 = torch.arange(n * T, device=key_nX.device).view(n, T, 1) + view.remembered
    return order_nT1, key_nX[:, None, :]


def _mask(view: View, tiles: Tiles, key_nX: Tensor, length: int) -> Bool[Tensor, "n 1 T X"]:
    """What the predicate allows, on keys that exist: linear in length."""
    i_nT1, j_n1X = _orders(view, tiles, key_nX)
    first = view.scene.start - view.remembered
    seen_nTX = view.pattern.allows(i_nT1 + first, j_n1X + first) & (j_n1X >= 0)
    seen_nTX = seen_nTX & (j_n1X <= i_nT1) if view.pattern.causal else seen_nTX
    return (seen_nTX & (i_nT1 < view.remembered + length))[:, None]


def _faded(view: View, tiles: Tiles, key_nX: Tensor, mask_n1TX: Tensor, dtype: torch.dtype) -> Float[Tensor, "n H T X"]:
    """The mask as a bias: a span's terms, and −∞ where masked."""
    assert view.span is not None
    i_nT1, j_n1X = _orders(view, tiles, key_nX)
    return view.span.fade(i_nT1 - j_n1X, view.scene, dtype).masked_fill(~mask_n1TX, -torch.inf)


paths.register(paths.FastPath(BLOCKS, "tiles of a pattern (PyTorch)", _why_not, _serves, _run))
