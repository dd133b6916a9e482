"""Memory: what an attention keeps of earlier segments. The config says how much; the state holds it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from sublayer.nn.config import Config
from sublayer.nn.scene import Scene
from sublayer.nn.state import Constant, Growing, PartState


class Remember:
    """Family of memories; a memory is config and mathematics, the tensors live in the state."""

    class Config(Config, family="memory"):
        hidden: ClassVar[bool] = False
        """Whether the part's inputs are kept, to be projected again, rather than keys and values."""

        @property
        def reach(self) -> int | None:
            """How many earlier places it keeps at most; None for all."""
            return None

        @property
        def sees(self) -> int | None:
            """How many earlier places a query sees at most, wherever the segments are cut; None for all there are."""
            return None

        @property
        def splits(self) -> bool:
            """Whether the result depends on where the segments are cut; then `allowed` states how."""
            return False

        def allowed(self, scene: Scene, memory: int) -> Tensor | None:
            """What it lets each query see of the last `memory` places and the segment; None for everything."""
            return None


@dataclass(frozen=True)
class KeyValues(PartState):
    """Projected keys and values of earlier places, by head."""

    k: Growing
    v: Growing
    table: Constant | None = None
    """What the position projected from distances, kept with frozen keys."""

    def __len__(self) -> int:
        return len(self.k)


@dataclass(frozen=True)
class Hidden(PartState):
    """The part's inputs at earlier places, cut from the graph: W_k and W_v still learn from them."""

    x: Growing

    def __len__(self) -> int:
        return len(self.x)
