"""What a pass gives to attention along bands: what queries see, and the bias by distance."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from sublayer.nn import paths
from sublayer.nn.attention.kernel.base import View
from sublayer.nn.attention.pattern.base import Bands, Pattern, bands_of

if TYPE_CHECKING:
    from sublayer.nn.attention.multihead import MultiHead


@dataclass(frozen=True)
class Terms:
    """What decides the weights besides queries and keys."""

    bands: Bands
    valid_BM: Bool[Tensor, "#B M"] | None = None
    """False on keys that nobody sees."""
    zero: int = 0
    """Where the bias of distance 0 is, counted from the first key: that of query i on key j is at [zero + j − i]."""
    dropout: float = 0.0


def seen_by(view: View, heads: int) -> Bands | None:
    """The bands of a pass; None where they are not all that decides which keys a query sees."""
    scene = view.scene
    if view.position.acts_on_scores and not view.position.biases_by_distance:
        return None
    if view.memory.masks or (scene.segment_L is not None and view.memory.splits):
        return None
    pattern, exact = _limited(view), view.memory.sees
    if exact is not None and (pattern.reach is None or pattern.reach > exact):
        return None
    if not scene.even and not scene.once(("ordered", pattern, view.remembered), lambda: _ordered(view, pattern)):
        return None
    return bands_of(pattern, heads, scene.length, view.remembered, scene.start)


def _limited(view: View) -> Pattern.Config:
    """The pattern, as far as span and memory let queries see."""
    spanned = view.pattern.within(None if view.span is None else view.span.sees(view.scene))
    return spanned.within(view.memory.sees)


def _ordered(view: View, pattern: Pattern.Config) -> bool:
    """Whether positions of real tokens go up by one, from wherever it does not matter."""
    i_BM, valid_BM = view.scene.positions(view.remembered), view.scene.valid(view.remembered)
    if i_BM.is_meta:
        return view.far_F is None  # there are no positions, only work to be counted
    apart_BM = i_BM - torch.arange(i_BM.shape[1], device=i_BM.device)
    first_B1 = apart_BM[:, -1:] if valid_BM is None else apart_BM.gather(1, valid_BM.int().argmax(1, keepdim=True))
    if not pattern.relative:
        first_B1 = torch.full_like(first_B1, view.scene.start - view.remembered)
    same_BM = apart_BM == first_B1
    return bool((same_BM if valid_BM is None else same_BM | ~valid_BM).all())


def terms_and_bias(q_BHLK: Tensor, view: View, bands: Bands) -> tuple[Terms, Float[Tensor, "#B #H #L R"] | None]:
    """The bias by distance that position and span add, and how it is to be read."""
    pattern, memory, length = _limited(view), view.remembered, view.scene.length
    far = memory + length - 1 if pattern.reach is None else min(pattern.reach, memory + length - 1)
    bias = bias_by_distance(q_BHLK, view, far, 0 if pattern.causal else length - 1)
    return Terms(bands, view.scene.valid(memory), far - memory, view.dropout), bias


def bias_by_distance(
    q_BHLK: Float[Tensor, "B H L K"], view: View, far: int, ahead: int
) -> Float[Tensor, "#B #H #L R"] | None:
    """What position and span add to scores on a key `far` tokens back, on the next …, on one `ahead`."""
    bias = None
    if view.position.acts_on_scores:
        bias = view.position.by_distance(q_BHLK, far, ahead, q_BHLK.shape[-1] ** -0.5, view.table)
    if view.span is None:
        return bias
    apart_11R = torch.arange(far, -ahead - 1, -1, device=q_BHLK.device)[None, None]
    fade_1H1R = view.span.fade(apart_11R, view.scene, q_BHLK.dtype)
    return fade_1H1R if bias is None else bias + fade_1H1R


def why_no_bands(part: MultiHead, mode: paths.Mode) -> str | None:
    """Why an attention's work cannot follow bands; None if it can."""
    if mode == "generation":
        return "one token at a time has no tiles"
    if part.position.acts_on_scores and not part.position.biases_by_distance:
        return f"position={part.position_tag} re-weighs scores or adds to values"
    if part.config.memory.masks:
        return f"memory={part.config.memory.tag} hides some keys from some queries"
    if bands_of(part.config.pattern, part.heads, 256, 0, 0) is None:
        return f"pattern={part.config.pattern.tag} gives no bands of keys"
    return None
