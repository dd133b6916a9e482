"""The growing cache: all keys and values so far, so that a new token costs one query. And no memory at all."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sublayer.nn.memory.base import Attended, KeyValues, Memory
from sublayer.nn.part import Slot, Work
from sublayer.nn.scene import Scene

if TYPE_CHECKING:
    from sublayer.nn.attention.projection import Projection


class Cache(Memory):
    """Everything is stored; segment after segment equals one pass."""

    class Config(Memory.Config, tag="cache"):
        recalls = True

        @property
        def masks(self) -> bool:
            return False

    def step(self, new: Projection, state: KeyValues | None, scene: Scene, limit: int | None) -> Attended:
        k_BGLK, v_BGLK = new.own()
        if state is None:
            return Attended(k_BGLK, v_BGLK, KeyValues.of(k_BGLK, v_BGLK), scene)
        return state.attend(k_BGLK, v_BGLK, scene, limit)


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
