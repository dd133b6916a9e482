"""Patterns: who may see whom. A pattern and a memory together make the mask of a pass; True means "may attend"."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Bool
from torch import Tensor

from sublayer.nn.config import Config, Count
from sublayer.nn.memory import Remember
from sublayer.nn.position.base import distances
from sublayer.nn.scene import Scene


class Pattern:
    """Family of patterns; a pattern is config and mathematics, it owns no tensors."""

    class Config(Config, family="pattern"):
        @property
        def causal(self) -> bool:
            """Whether no query sees what stands after it."""
            return False

        @property
        def reach(self) -> int | None:
            """How many earlier places a query can see; None for all."""
            return None

        def allowed(self, scene: Scene, memory: int) -> Bool[Tensor, "#B L M"] | None:
            """Which of the last `memory` places and the segment each query may see; None for all."""
            raise NotImplementedError


class Full(Pattern):
    """Everyone sees everyone."""

    class Config(Pattern.Config, tag="full"):
        def allowed(self, scene: Scene, memory: int) -> Bool[Tensor, "#B L M"] | None:
            return None


class Causal(Pattern):
    """A query sees itself and what stands before it."""

    class Config(Pattern.Config, tag="causal"):
        @property
        def causal(self) -> bool:
            return True

        def allowed(self, scene: Scene, memory: int) -> Bool[Tensor, "#B L M"] | None:
            return None if scene.length == 1 else lower(scene, memory)


class Window(Pattern):
    """A query sees the `size` places that end with itself; looking both ways, also the size − 1 after it."""

    class Config(Pattern.Config, tag="window"):
        size: Count = 128
        """Places seen, the query's own included."""
        look: Literal["back", "both"] = "back"

        @property
        def reach(self) -> int:
            return self.size - 1

        @property
        def causal(self) -> bool:
            return self.look == "back"

        def allowed(self, scene: Scene, memory: int) -> Bool[Tensor, "#B L M"] | None:
            apart_BLM = distances(scene, memory)
            if self.look == "both":
                return apart_BLM.abs() < self.size
            return (apart_BLM < self.size) & lower(scene, memory)


def narrowed(pattern: Pattern.Config, reach: int | None) -> Pattern.Config:
    """The window that is left of a plain pattern where no query looks farther than `reach`; others stay."""
    plain = isinstance(pattern, (Causal.Config, Full.Config, Window.Config))
    if reach is None or not plain or (pattern.reach is not None and pattern.reach <= reach):
        return pattern
    return Window.Config(size=reach + 1, look="back" if pattern.causal else "both")


def lower(scene: Scene, memory: int) -> Bool[Tensor, "1 L M"]:
    """Keys up to the query's own place. By place, not by position id: ids may be given in any order."""
    ones_LM = torch.ones(scene.length, memory + scene.length, dtype=torch.bool, device=scene.i_BL.device)
    return ones_LM.tril(memory)[None]


@dataclass(frozen=True, eq=False)
class Sight:
    """What the queries of a pass may see, in the cheapest form that says it. Equal only to itself."""

    mask_B1LM: Bool[Tensor, "#B 1 L M"] | None = None
    causal: bool = False
    """The plain lower triangle with no memory, which attention kernels know by themselves."""


def sight(scene: Scene, pattern: Pattern.Config, memory: Remember.Config, remembered: int) -> Sight:
    """Pattern, memory and padding in one; made once a pass for all layers that share them."""
    return scene.once(("sight", pattern, memory, remembered), lambda: _sight(scene, pattern, memory, remembered))


def _sight(scene: Scene, pattern: Pattern.Config, memory: Remember.Config, remembered: int) -> Sight:
    valid_BM = scene.valid(remembered)
    spans_BLM = memory.allowed(scene, remembered)
    if isinstance(pattern, Causal.Config) and spans_BLM is None and valid_BM is None and remembered == 0:
        return Sight(causal=scene.length > 1)
    masks = [pattern.allowed(scene, remembered), spans_BLM, None if valid_BM is None else valid_BM[:, None, :]]
    mask_BLM = None
    for mask in masks:
        if mask is not None:
            mask_BLM = mask if mask_BLM is None else mask_BLM & mask
    return Sight(None if mask_BLM is None else mask_BLM[:, None])
