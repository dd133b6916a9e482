"""The cache: all keys and values that later queries can see, so that a new token costs one query. And no memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sublayer.nn.memory.base import Attended, Memory
from sublayer.nn.memory.key_values import KeyValues, first_segment
from sublayer.nn.part import Slot, Work
from sublayer.nn.scene import Scene

if TYPE_CHECKING:
    from sublayer.nn.attention.projection import Projection


class Cache(Memory):
    """All is stored that the pattern ever shows again; segment after segment equals one pass."""

    class Config(Memory.Config, tag="cache"):
        recalls = True
        outlasts = True

        @property
        def masks(self) -> bool:
            return False

    def step(self, new: Projection, state: KeyValues | None, scene: Scene, limit: int | None) -> Attended:
        k_BGLK, v_BGLK = new.own()
        if state is None:
            return first_segment(k_BGLK, v_BGLK, scene, limit, new.outlasting)
        return state.attend(k_BGLK, v_BGLK, scene, limit, new.outlasting)


class NoMemory(Memory):
    """Nothing is stored: attention that looks both ways has no earlier segments."""

    class Config(Memory.Config, tag="none"):
        recalls = True

        @property
        def reach(self) -> int:
            return 0

        @property
        def masks(self) -> bool:
            return False

        def state_size(self, slot: Slot, groups: int, head_dim: int, work: Work, reach: int | None) -> int:
            return 0

    def step(self, new: Projection, state: Any, scene: Scene, limit: int | None) -> Attended:
        return Attended(*new.own(), None, scene)
