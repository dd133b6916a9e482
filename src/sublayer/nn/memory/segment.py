"""Transformer-XL's memory: the hidden states of the last M places, read again by the next segment."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from sublayer.nn.config import Count
from sublayer.nn.memory.base import Remember
from sublayer.nn.position.base import distances
from sublayer.nn.scene import Scene


class Segment(Remember):
    """h̃ = [stop-gradient(memory) ∘ segment]; keys and values come from h̃, queries from the segment (Dai et al. 2019).

    span "paper": a segment sees the M places before it and its own past, so a late query sees more than an early one;
    the result depends on the cuts: query i sees key j if j ≤ i and j ≥ start(segment of i) − M.
    span "exact": query i sees the M places before itself, wherever the cuts are.
    """

    class Config(Remember.Config, tag="segment"):
        hidden = True
        length: Count = 512
        """M, places kept."""
        span: Literal["paper", "exact"] = "paper"

        @property
        def reach(self) -> int:
            return self.length

        @property
        def sees(self) -> int | None:
            return self.length if self.span == "exact" else None

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
