"""Transformer-XL's memory: the hidden states of the last M tokens, read again by the next segment."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import torch
from torch import Tensor

from sublayer.nn.config import Count
from sublayer.nn.memory.base import Attended, Hidden, Memory
from sublayer.nn.memory.key_values import KeyValues
from sublayer.nn.position.base import distances
from sublayer.nn.scene import Scene
from sublayer.nn.state import Growing

if TYPE_CHECKING:
    from sublayer.nn.attention.projection import Projection


class Segment(Memory):
    """h̃ = [stop-gradient(memory) ∘ segment]; keys and values come from h̃, queries from the segment (Dai et al. 2019).

    span "paper": a segment sees the M tokens before it and its own past, so a late query sees more than an early one;
    the result depends on the cuts: query i sees key j if j ≤ i and j ≥ start(segment of i) − M.
    span "exact": query i sees the M tokens before itself, wherever the cuts are.

    What the sublayer receives is stored, before its norm: a norm in front of the attention is applied again when the
    memory is read, so that it learns from the memory too, as in the authors' `pre_lnorm` and in GTrXL.
    """

    class Config(Memory.Config, tag="segment"):
        hidden = True
        recalls = True
        length: Count = 512
        """M, tokens stored."""
        span: Literal["paper", "exact"] = "paper"

        @property
        def reach(self) -> int:
            return self.length

        @property
        def sees(self) -> int | None:
            return self.length if self.span == "exact" else None

        @property
        def masks(self) -> bool:
            return False

        @property
        def splits(self) -> bool:
            return self.span == "paper"

        def allowed(self, scene: Scene, memory: int) -> Tensor | None:
            if self.span == "exact":
                return distances(scene, memory) <= self.length
            if scene.segment_L is None:
                return None
            j_M = torch.arange(scene.start - memory, scene.start + scene.length, device=scene.i_BL.device)
            return (j_M >= scene.segment_L[:, None] - self.length)[None]

    def step(self, new: Projection, state: KeyValues | Hidden | None, scene: Scene, limit: int | None) -> Attended:
        if isinstance(state, KeyValues):  # frozen
            return state.attend(*new.own(), scene, limit)
        if state is None:
            return Attended(*new.own(), self.skip(new, state, scene, limit), scene)
        remembered_BPD = state.x.last(limit)
        both_BMD = torch.cat([remembered_BPD, new.x_BLD], dim=1)
        k_BGMK, v_BGMK = new.of(both_BMD, scene, remembered_BPD.shape[1])
        return Attended(k_BGMK, v_BGMK, self.skip(new, state, scene, limit), scene)

    def skip(
        self, new: Projection, state: KeyValues | Hidden | None, scene: Scene, limit: int | None
    ) -> KeyValues | Hidden:
        if isinstance(state, KeyValues):
            return self.step(new, state, scene, limit).state
        x_BLD = new.x_BLD.detach()
        return Hidden(Growing.of(x_BLD, 1) if state is None else state.x.append(x_BLD, new.reach))

    def freeze(
        self, new: Projection, state: KeyValues | Hidden | None, scene: Scene, limit: int | None
    ) -> KeyValues | None:
        """Keys and values of the stored hidden states, computed once, with the table of distances."""
        if not isinstance(state, Hidden):
            return state
        x_BMD = state.x.last(limit)
        return KeyValues.of(*new.of(x_BMD, scene, x_BMD.shape[1]), new.table((limit or 0) + 1))
