"""Window attention by blocks: work and memory linear in length.

Queries are cut into blocks as long as the window, so that a block sees at most itself and its neighbours: a fixed
number of keys. All blocks of all rows then have one shape and go through attention as one batch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn import functional as F

from sublayer.nn import paths
from sublayer.nn.attention.kernel.base import View
from sublayer.nn.attention.kernel.softmax import BLOCKS
from sublayer.nn.attention.pattern import Window
from sublayer.nn.attention.span import Span
from sublayer.nn.scene import Scene

if TYPE_CHECKING:
    from sublayer.nn.attention.multihead import MultiHead


def window_of(view: View) -> Window.Config | None:
    """The window that pattern and span leave; None for other patterns."""
    pattern = view.pattern.within(None if view.span is None else view.span.sees(view.scene))
    return pattern if isinstance(pattern, Window.Config) else None


def followed(view: View) -> bool:
    """Whether the pattern alone decides which keys a query sees: no bias, no second mask, no padding."""
    return view.scene.even and not view.position.acts_on_scores and not view.memory.masks


def why_no_blocks(part: MultiHead, mode: paths.Mode) -> str | None:
    """Why an attention's work cannot follow the pattern; None if it can."""
    if mode == "generation":
        return "one token at a time has no blocks"
    if part.position.acts_on_scores:
        return f"position={part.position_tag} adds to the scores"
    if part.config.memory.masks:
        return f"memory={part.config.memory.tag} hides some keys from some queries"
    return None


def _serves(q_BHLK: Tensor, k_BGMK: Tensor, view: View) -> bool:
    window = window_of(view)
    return window is not None and followed(view) and q_BHLK.shape[2] > window.longest_rectangle


def _why_not(part: MultiHead, mode: paths.Mode) -> str | None:
    pattern = part.config.pattern.within(part.config.span.begins)
    if not isinstance(pattern, Window.Config):
        return paths.UNRELATED
    return why_no_blocks(part, mode)


def _run(
    q_BHLK: Float[Tensor, "B H L K"], k_BGMK: Float[Tensor, "B G M K"], v_BGMK: Float[Tensor, "B G M K"], view: View
) -> Float[Tensor, "B H L K"]:
    """Equal to `attend` under the window's mask."""
    window, position, scene, span = window_of(view), view.position, view.scene, view.span
    assert window is not None
    B, H, L, K = q_BHLK.shape
    W, wide = window.size, window.spread
    memory = k_BGMK.shape[2] - L
    blocks = -(-L // W)
    q_BHLK = position.query(q_BHLK, scene)
    q_NHWK = F.pad(q_BHLK, (0, 0, 0, blocks * W - L)).view(B, H, blocks, W, K).transpose(1, 2).flatten(0, 1)
    # Keys from one window before the first query to one block after the last; those that do not exist are padding.
    # `unfold` makes overlapping views (each key belongs to 2 or 3 blocks); only `flatten` copies them.
    after = blocks * W - L + (wide - 2 * W)
    k_NGXK, v_NGXK = (
        F.pad(x, (0, 0, W - memory, after)).unfold(2, wide, W).permute(0, 2, 1, 4, 3).flatten(0, 1)
        for x in (k_BGMK, v_BGMK)
    )
    mask_n1WX = scene.once(("blocks", window, memory), lambda: _mask(window, blocks, L, memory, q_BHLK.device))
    mask_nHWX = mask_n1WX if span is None else _faded(mask_n1WX, window, span, scene, q_BHLK.dtype)
    y_NHWK = F.scaled_dot_product_attention(
        q_NHWK, k_NGXK, v_NGXK, mask_nHWX.repeat(B, 1, 1, 1), view.dropout, enable_gqa=k_NGXK.shape[1] != H
    )
    return y_NHWK.view(B, blocks, H, W, K).transpose(1, 2).reshape(B, H, blocks * W, K)[:, :, :L]


def _faded(
    mask_n1WX: Bool[Tensor, "n 1 W X"], window: Window.Config, span: Span, scene: Scene, dtype: torch.dtype
) -> Float[Tensor, "n H W X"]:
    """The mask as a bias: a span's terms, which are the same for all blocks, and −∞ where masked."""
    i_W, j_X = (torch.arange(size, device=mask_n1WX.device) for size in mask_n1WX.shape[2:])
    apart_1WX = (i_W[:, None] + window.size - j_X)[None]
    return span.fade(apart_1WX, scene, dtype).masked_fill(~mask_n1WX, -torch.inf)


def _mask(
    window: Window.Config, blocks: int, length: int, memory: int, device: torch.device
) -> Bool[Tensor, "n 1 W X"]:
    """Within the window, and on keys that exist: linear in length, blocks × W × (2 or 3)W."""
    i_n1 = torch.arange(blocks, device=device)[:, None] * window.size
    i_nW1 = (i_n1 + torch.arange(window.size, device=device))[..., None]
    j_n1X = (i_n1 - window.size + torch.arange(window.spread, device=device))[:, None]
    apart = i_nW1 - j_n1X
    seen = (apart < window.size) & ((apart >= 0) if window.look == "back" else (apart > -window.size))
    return (seen & (j_n1X >= -memory) & (j_n1X < length))[:, None]


paths.register(paths.FastPath(BLOCKS, "window blocks (PyTorch)", _why_not, _serves, _run))
