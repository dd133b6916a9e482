"""Memory: what an attention stores of earlier segments, and what it offers to be attended.

A memory is a module: it may have parameters and add losses. Its state is a value that it returns with every step. The
slots it offers need not be consecutive tokens: compressed or retrieved ones come with positions of their own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from torch import Tensor, nn

from sublayer.nn.config import Config
from sublayer.nn.limits import least
from sublayer.nn.part import Slot, Work
from sublayer.nn.scene import Scene
from sublayer.nn.state import Growing, PartState

if TYPE_CHECKING:
    from sublayer.nn.attention.projection import Projection


@dataclass(frozen=True)
class Attended:
    """What the queries of a segment attend to: slots of the memory first, then the segment itself."""

    k_BGMK: Tensor
    v_BGMK: Tensor
    state: Any
    """State after this segment."""
    scene: Scene
    """The pass as these keys see it: `scene.positions(M − L)` and `scene.valid(M − L)` are those of the slots."""
    table: Tensor | None = None
    """What the position projected from distances, if the state stores it."""
    far_F: Tensor | None = None
    """Which tokens the first F slots hold, where these are not the ones just before the other slots: counted from the
    first token that was read, in order."""


class Memory(nn.Module):
    """Abstract: `attended = memory.step(new, state, scene, limit)`."""

    class Config(Config, family="memory"):
        hidden: ClassVar[bool] = False
        """Whether it stores what the sublayer receives, to be projected again, rather than keys and values."""
        recalls: ClassVar[bool] = False
        """Whether a stack with a memory of its own (Feedback) can store what this one would."""
        outlasts: ClassVar[bool] = False
        """Whether it stores keys and values of those tokens that the pattern says to last, beside the last ones; then
        its limit is the pattern's `recent`, not how far a query sees."""

        @property
        def reach(self) -> int | None:
            """How many earlier tokens it stores at most; None for all, 0 for none."""
            return None

        @property
        def sees(self) -> int | None:
            """How many earlier tokens a query sees at most, wherever the segments are cut; None for all there are."""
            return None

        @property
        def splits(self) -> bool:
            """Whether the result depends on where the segments are cut; then `allowed` states how."""
            return False

        @property
        def carries(self) -> bool:
            """Whether training should pass its state on from batch to batch."""
            return self.hidden

        @property
        def masks(self) -> bool:
            """Whether `allowed` may hide more than `sees` and the segments' cuts tell; then attention has no bands."""
            return True

        def allowed(self, scene: Scene, memory: int) -> Tensor | None:
            """Which of its `memory` slots and of the segment each query may see, (B or 1, L, M); None for all."""
            return None

        def build(self, slot: Slot, groups: int, head_dim: int) -> Memory:
            return self.owner(self, slot, groups, head_dim)

        def params(self, slot: Slot, groups: int, head_dim: int) -> int:
            return 0

        def flops(self, slot: Slot, groups: int, head_dim: int, work: Work) -> int:
            """Matmul work of its own, beside the projection of what is attended."""
            return 0

        def head_flops(self, head_dim: int, work: Work) -> int:
            """Matmul work of its own for each query head."""
            return 0

        def slots(self, tokens: int) -> int:
            """Number of slots it offers after that many earlier tokens, of those within reach."""
            return tokens

        def offered(self, tokens: int, limit: int | None) -> int:
            """The same after any number of tokens, of which the attention can use the last `limit`; None: all."""
            return self.slots(least(tokens, limit) or 0)

        def behind(self, tokens: int, limit: int | None) -> int:
            """How many tokens back from the next one the oldest of these slots stands."""
            return self.offered(tokens, limit)

        def remembering(self, tokens: int) -> dict[str, Any]:
            """The settings with which it stores so many earlier tokens; asked of memories of hidden states."""
            return {"length": tokens}

        def state_size(self, slot: Slot, groups: int, head_dim: int, work: Work, reach: int | None) -> int:
            """Numbers in its state, per row; `reach`: number of earlier tokens that the attention can use. Of hidden
            states the whole segment is stored, of keys and values those in reach."""
            if self.hidden and not work.frozen:
                return slot.dim * (work.length + (least(work.memory, reach) or 0))
            return 2 * groups * head_dim * (least(work.memory + work.length, reach) or 0)

    def __init__(self, config: Memory.Config, slot: Slot, groups: int, head_dim: int) -> None:
        super().__init__()
        self.config = config

    def step(self, new: Projection, state: Any, scene: Scene, limit: int | None) -> Attended:
        """What the segment attends to, and the state after it.

        new: gives the segment's own keys and values, and projects stored inputs. state: None before the first segment.
        limit: how many earlier tokens any head looks at; None for all. Losses go to `scene.add_loss`.
        """
        raise NotImplementedError

    def skip(self, new: Projection, state: Any, scene: Scene, limit: int | None) -> Any:
        """The state after a segment whose output is not used (LayerDrop)."""
        return self.step(new, state, scene, limit).state

    def freeze(self, new: Projection, state: Any, scene: Scene, limit: int | None) -> Any:
        """The state in the form for inference; unchanged is always right. The segment of `scene` and `new` is empty."""
        return state


@dataclass(frozen=True)
class Hidden(PartState):
    """What the sublayer received at earlier tokens, cut from the graph: norm, W_k and W_v still learn from it."""

    by_token = True
    x: Growing

    def __len__(self) -> int:
        return len(self.x)
