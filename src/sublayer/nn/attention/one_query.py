"""Attention of one query: it reads the keys that its pattern lists, and no others.

What is stored may be much more than one query sees: all tokens of a text, of which a strided pattern shows one column.
Keys are gathered, so that neither a mask nor a product grows with the text.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn import functional as F

from sublayer.nn import paths
from sublayer.nn.attention.along import bias_by_distance
from sublayer.nn.attention.kernel.base import View
from sublayer.nn.attention.kernel.softmax import BANDS, attend
from sublayer.nn.attention.pattern.base import Pattern, Sight, sight
from sublayer.nn.attention.ranges import Ranges, before, disjoint, indices, shifted, since, slots
from sublayer.nn.scene import Scene

if TYPE_CHECKING:
    from sublayer.nn.attention.multihead import MultiHead


@dataclass(frozen=True)
class Keys:
    """What any head of any row sees; the query's own key is the last, whether it is seen or not."""

    first: int
    """They are the slots from this one on,"""
    at_X: Int[Tensor, " X"] | None
    """or these."""
    back: int
    """Distance of the farthest, where all rows are alike."""
    exact: bool
    """Whether every head of every row sees them all."""

    def take(self, x: Tensor, dim: int = 2) -> Tensor:
        if self.at_X is None:
            return x.narrow(dim, self.first, x.shape[dim] - self.first)
        return x.index_select(dim, self.at_X.to(x.device))


@lru_cache(maxsize=256)
def kinds_of(pattern: Pattern.Config, heads: int) -> tuple[Pattern.Config, ...]:
    """The patterns that its heads have, each once."""
    return tuple(dict.fromkeys(pattern.by_head(heads)))


def seen(pattern: Pattern.Config, heads: int, i: int, first: int) -> tuple[int, int] | None:
    """How many of the keys from `first` on a query at position i reads, with its own, and the distance of the farthest;
    None: all that there are."""
    found = _tokens(pattern, heads, i, (0,))
    if found is None:
        return None
    earlier = [since(before(one, i), first) for one in found[0]]
    return 1 + sum(map(len, earlier)), i - min((one.start for one in earlier if one), default=i)


def _tokens(pattern: Pattern.Config, heads: int, start: int, firsts: Sequence[int]) -> tuple[Ranges, bool] | None:
    """What any head sees from token `start`, in rows whose first real token is one of `firsts`; and whether all of them
    see all of it, the own token included. None: the pattern does not list it."""
    each = []
    for kind in kinds_of(pattern, heads):
        for first in firsts:
            if (ranges := kind.ranges(start - first)) is None:
                return None
            each.append(tuple(shifted(one, first) for one in ranges) if first else ranges)
    if len(each) == 1:
        return each[0], any(start in one for one in each[0])
    return disjoint(one for ranges in each for one in ranges), False


def keys_of(view: View) -> Keys | None:
    """What the one query of a pass reads; None: all there is, under a mask."""
    key = "one query", view.pattern, view.remembered, view.heads
    return view.scene.once(key, lambda: _keys_of(view))


def _keys_of(view: View) -> Keys | None:
    scene, far_F, own = view.scene, view.far_F, view.remembered
    firsts = (0,) if scene.valid_BL is None else _first_tokens(view)
    found = None if firsts is None else _tokens(view.pattern, view.heads, scene.start, firsts)
    if found is None:
        return None
    oldest = scene.start - own + (0 if far_F is None else len(far_F))
    tokens = [before(one, scene.start) for one in found[0]]
    tokens = tokens if far_F is not None else [since(one, oldest) for one in tokens]
    at = slots(tokens, oldest, far_F)
    back = scene.start - min((one.start for one in tokens if one), default=scene.start)
    exact = found[1] and scene.valid_BL is None
    if sum(map(len, at)) == own:
        return Keys(0, None, back, exact)
    if len(at) == 1 and at[0] == range(at[0].start, own):
        return Keys(at[0].start, None, back, exact)
    return Keys(0, indices([*at, range(own, own + 1)]), back, exact)


def _first_tokens(view: View) -> tuple[int, ...] | None:
    """The tokens at which the rows that have one now begin; None where positions are not counted on from there."""
    scene, memory = view.scene, view.remembered
    assert scene.valid_BL is not None
    apart_BM = _tokens_stored(view).to(scene.i_BL.device) - scene.positions(memory)
    now_B1, valid_BM = scene.valid_BL, scene.valid(memory)
    same_BM = (apart_BM == apart_BM[:, -1:]) | ~now_B1
    if not bool((same_BM if valid_BM is None else same_BM | ~valid_BM).all()):
        return None
    return tuple(sorted(set(apart_BM[:, -1].expand(len(now_B1))[now_B1[:, 0]].tolist())))


def _tokens_stored(view: View) -> Int[Tensor, " M"]:
    """Which token each slot holds, the query's own last."""
    far_F = torch.empty(0, dtype=torch.long, device="cpu") if view.far_F is None else view.far_F
    start = view.scene.start
    return torch.cat([far_F, torch.arange(start - view.remembered + len(far_F), start + 1, device="cpu")])


def run(
    q_BH1K: Float[Tensor, "B H 1 K"], k_BGMK: Float[Tensor, "B G M K"], v_BGMK: Float[Tensor, "B G M K"], view: View
) -> Float[Tensor, "B H 1 K"]:
    keys, position = keys_of(view), view.position
    assert keys is not None
    k_BGXK, v_BGXK = keys.take(k_BGMK), keys.take(v_BGMK)
    mask_BH1X = None if keys.exact else _mask(view, keys)
    if view.scene.valid_BL is not None or (position.acts_on_scores and not position.biases_by_distance):
        given = Sight(mask_BH1X), position, _after(view, keys), view.table, view.dropout, view.span
        return attend(q_BH1K, k_BGXK, v_BGXK, *given)
    bias_BH1X = bias_by_distance(q_BH1K, view, keys.back, 0)
    if bias_BH1X is not None:
        column_X = keys.take(_tokens_stored(view), 0) - (view.scene.start - keys.back)
        bias_BH1X = bias_BH1X.index_select(-1, column_X.to(q_BH1K.device))
    added_BH1X = mask_BH1X if bias_BH1X is None else bias_BH1X
    if bias_BH1X is not None and mask_BH1X is not None:
        added_BH1X = bias_BH1X.masked_fill(~mask_BH1X, -torch.inf)
    return F.scaled_dot_product_attention(
        position.query(q_BH1K, view.scene),
        k_BGXK,
        v_BGXK,
        added_BH1X,
        view.dropout,
        scale=q_BH1K.shape[-1] ** -0.5,
        enable_gqa=k_BGXK.shape[1] != q_BH1K.shape[1],
    )


def _after(view: View, keys: Keys) -> Scene:
    """The query after the keys that it reads, instead of all that are stored."""

    def made() -> Scene:
        i_BX, valid_BM = keys.take(view.scene.positions(view.remembered), 1), view.scene.valid(view.remembered)
        valid_BX = None if valid_BM is None else keys.take(valid_BM, 1)[:, :-1]
        return replace(view.scene, past_i_BP=i_BX[:, :-1], past_valid_BP=valid_BX, _once={})

    return view.scene.once(("after one query's keys", view.pattern, view.remembered, view.heads), made)


def _mask(view: View, keys: Keys) -> Bool[Tensor, "#B #H 1 X"] | None:
    here = _after(view, keys)
    assert here.past_i_BP is not None
    return sight(here, view.pattern, view.memory, here.past_i_BP.shape[1], view.heads).mask_BHLM


def _serves(q_BHLK: Tensor, k_BGMK: Tensor, v_BGMK: Tensor, view: View) -> bool:
    if q_BHLK.shape[2] != 1 or not view.pattern.causal or view.pattern.triangle:
        return False
    return not view.memory.masks and view.scene.segment_L is None and keys_of(view) is not None


def _why_not(part: MultiHead, mode: paths.Mode) -> str | None:
    pattern = part.config.pattern
    if mode != "generation" or not pattern.causal or pattern.triangle:
        return paths.UNRELATED
    if part.config.memory.masks:
        return f"memory={part.config.memory.tag} hides some keys from some queries"
    if any(kind.ranges(0) is None for kind in kinds_of(pattern, part.heads)):
        return f"pattern={pattern.tag} does not list the keys of one query"
    return None


paths.register(paths.FastPath(BANDS, "keys of one query (PyTorch)", _why_not, _serves, run))
