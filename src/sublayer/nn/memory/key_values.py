"""Keys and values of earlier tokens that later queries can see: the last ones, and some that outlast these."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from sublayer.nn.memory.base import Attended
from sublayer.nn.scene import Scene
from sublayer.nn.state import Constant, Growing, PartState

if TYPE_CHECKING:
    from sublayer.nn.attention.pattern import Pattern


@dataclass(frozen=True)
class Lasting(PartState):
    """Keys and values of tokens before the last ones that later queries can still see."""

    k: Growing
    v: Growing
    t: Growing
    """Which tokens, counted from the first that was read, padding included; in order, the same for all rows, on the
    CPU."""

    def map(self, change: Callable[[Tensor], Tensor]) -> Lasting:
        # Buffers with room to spare are written in place, so copies of a state must not share this one either.
        return replace(self, k=self.k.map(change), v=self.v.map(change), t=self.t.map(torch.clone))


@dataclass(frozen=True)
class KeyValues(PartState):
    """Projected keys and values of earlier tokens, by head."""

    by_token = True
    k: Growing
    v: Growing
    table: Constant | None = None
    """What the position projected from distances, stored with frozen keys."""
    far: Lasting | None = None

    @classmethod
    def of(cls, k_BGMK: Tensor, v_BGMK: Tensor, table: Tensor | None = None) -> KeyValues:
        return cls(Growing.of(k_BGMK, 2), Growing.of(v_BGMK, 2), None if table is None else Constant(table))

    def __len__(self) -> int:
        """Number of the last tokens that are stored."""
        return len(self.k)

    def attend(
        self,
        k_BGLK: Float[Tensor, "B G L K"],
        v_BGLK: Float[Tensor, "B G L K"],
        scene: Scene,
        limit: int | None,
        pattern: Pattern.Config | None = None,
    ) -> Attended:
        """What is stored of the last `limit` tokens, then the segment's own; the state after it stores no more.

        pattern: says which tokens last beyond these; None: none do.
        """
        near = len(self) if limit is None else min(_slots(scene.past_valid(len(self)), limit), len(self))
        limit = None if limit is None else _slots(scene.valid(near), limit)
        k, v = self.k.append(k_BGLK, near), self.v.append(v_BGLK, near)
        k_BGNK, v_BGNK = k.last(near + scene.length), v.last(near + scene.length)
        far = self.far if pattern is None else _outlived(self.far, k_BGNK, v_BGNK, scene, limit, pattern)
        state = KeyValues(k.trim(limit), v.trim(limit), self.table, far)
        table = None if self.table is None else self.table.value
        if self.far is None:
            return Attended(k_BGNK, v_BGNK, state, scene, table)
        k_BGMK, v_BGMK = torch.cat([self.far.k.value, k_BGNK], dim=2), torch.cat([self.far.v.value, v_BGNK], dim=2)
        t_F = self.far.t.value
        seen = scene.once(("after lasting", pattern, near, len(t_F)), lambda: _after(scene, t_F, near))
        return Attended(k_BGMK, v_BGMK, state, seen, table, t_F)


def first_segment(
    k_BGLK: Tensor, v_BGLK: Tensor, scene: Scene, limit: int | None, pattern: Pattern.Config | None = None
) -> Attended:
    """The segment alone, and the state after it: as `KeyValues.attend` where nothing is stored yet."""
    limit = None if limit is None else _slots(scene.valid(0), limit)
    far = None if pattern is None else _outlived(None, k_BGLK, v_BGLK, scene, limit, pattern)
    k, v = Growing.of(k_BGLK, 2).trim(limit), Growing.of(v_BGLK, 2).trim(limit)
    return Attended(k_BGLK, v_BGLK, KeyValues(k, v, far=far), scene)


def _slots(valid_BN: Bool[Tensor, "B N"] | None, tokens: int) -> int:
    """How many of the last slots hold the last `tokens` real ones of every row: padding may lie between them. A row
    that has fewer needs the slots from its first real one on, not the padding before it."""
    if valid_BN is None or not valid_BN.shape[1]:
        return tokens
    nth_BN = valid_BN.flip(1).cumsum(1)  # counted back from the last slot
    needed_BN = valid_BN.flip(1) & (nth_BN <= tokens)
    back_N = torch.arange(1, valid_BN.shape[1] + 1, device=valid_BN.device)
    return max(tokens, int((needed_BN * back_N).max()))


def _outlived(
    far: Lasting | None, k_BGNK: Tensor, v_BGNK: Tensor, scene: Scene, limit: int | None, pattern: Pattern.Config
) -> Lasting | None:
    """`far` with those of the N newest tokens that are no longer among the last `limit` and yet last."""
    leaving = 0 if limit is None else max(0, k_BGNK.shape[2] - limit)
    complete = scene.even and far is not None and len(far.t) == pattern.lasting
    if not leaving or complete:
        return far
    near = k_BGNK.shape[2] - scene.length
    at = scene.once(("lasting", pattern, near, leaving), lambda: _lasting(scene, near, leaving, pattern))
    if not len(at):
        return far
    k_BGFK, v_BGFK = (x.index_select(2, at.to(x.device)) for x in (k_BGNK, v_BGNK))
    t_F = at + scene.start - near
    if far is None:
        return Lasting(Growing.of(k_BGFK, 2), Growing.of(v_BGFK, 2), Growing.of(t_F, 0))
    return Lasting(far.k.append(k_BGFK), far.v.append(v_BGFK), far.t.append(t_F))


def _lasting(scene: Scene, near: int, leaving: int, pattern: Pattern.Config) -> Int[Tensor, " F"]:
    """Which of the `leaving` first tokens, of the last `near` ones and the segment, any row can still see later."""
    if scene.even:
        first = scene.start - near
        return pattern.lasts(torch.arange(first, first + leaving, device="cpu")).nonzero().flatten()
    last_BN = pattern.lasts(scene.positions(near)[:, :leaving])
    valid_BN = scene.valid(near)
    last_BN = last_BN if valid_BN is None else last_BN & valid_BN[:, :leaving]
    return last_BN.any(0).nonzero().flatten().cpu()


def _after(scene: Scene, t_F: Tensor, near: int) -> Scene:
    """The segment after the tokens t_F and the `near` ones just before it."""
    t_P = torch.cat([t_F, torch.arange(scene.start - near, scene.start, device="cpu")]).to(scene.i_BL.device)
    i_BP = t_P[None] if scene.past_i_BP is None else scene.past_i_BP[:, t_P]
    valid_BP = None if scene.past_valid_BP is None else scene.past_valid_BP[:, t_P]
    return replace(scene, past_i_BP=i_BP, past_valid_BP=valid_BP, _once={})
