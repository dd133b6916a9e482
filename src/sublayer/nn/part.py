"""Part: what may stand at a place in the stack, D → D; with what it is told when built and when costed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from torch import Tensor, nn

from sublayer.nn.config import Config
from sublayer.nn.scene import Scene

if TYPE_CHECKING:
    from sublayer.nn.position.base import Position


@dataclass(frozen=True)
class Slot:
    """Where a part stands: the sizes and shared things its parent knows, so that no config repeats them."""

    dim: int
    position: Position.Config | None = None
    """How the stack tells places apart; None where there is no stack, as when a part is tried alone."""
    shared: Position | None = None
    """The stack's own position module, which holds what its layers share; None while costing."""


@dataclass(frozen=True)
class Work:
    """One forward pass to be costed: `length` new places after `memory` remembered ones, for one row.

    frozen: remembered places are kept as keys and values, not as hidden states to be projected again.
    """

    length: int
    memory: int = 0
    source: int = 0
    frozen: bool = True


class Part(nn.Module):
    """D → D, with a state of its own if it remembers: `y_BLD, state = part(x_BLD, scene, state)`.

    `state` is None before the first segment; a part that remembers nothing returns None.
    """

    class Config(Config, family="part"):
        @property
        def splits(self) -> bool:
            """Whether its mathematics depends on where segments are cut; then a pass with `segments=` states how."""
            return False

        def build(self, slot: Slot) -> Part:
            return self.owner(self, slot)

        def params(self, slot: Slot) -> int:
            """Parameters, counted without building."""
            raise NotImplementedError(f"{type(self).__qualname__} does not say how many parameters it has")

        def flops(self, slot: Slot, work: Work) -> int:
            """Matmul work of one forward pass, 2 per multiply-add."""
            raise NotImplementedError(f"{type(self).__qualname__} does not say how many FLOPs it takes")

    def forward(self, x_BLD: Tensor, scene: Scene, state: Any = None) -> tuple[Tensor, Any]:
        raise NotImplementedError

    def forward_normed(self, norm: nn.Module, x_BLD: Tensor, scene: Scene, state: Any = None) -> tuple[Tensor, Any]:
        """The part on norm(x); one that can do both at once does."""
        return self(norm(x_BLD), scene, state)

    def skip(self, x_BLD: Tensor, scene: Scene, state: Any = None) -> Any:
        """The state after a segment whose output nobody wants (LayerDrop)."""
        return self(x_BLD, scene, state)[1]
