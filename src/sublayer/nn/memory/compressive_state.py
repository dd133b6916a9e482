"""The state of a compressive memory: recent tokens as they are, and slots made of older ones."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

from jaxtyping import Float
from torch import Tensor

from sublayer.nn.memory.turnover import Turnover
from sublayer.nn.state import Constant, Growing, PartState


@dataclass(frozen=True)
class SlotState(PartState):
    """CompressiveState slots: as the sublayer would receive them, or, frozen, as keys and values."""

    x: Growing | None = None
    k: Growing | None = None
    v: Growing | None = None
    i: Growing | None = None
    """Their positions, where they are chosen by usage; else these are known without being stored."""

    def after(self, made: SlotState | None, move: Turnover) -> SlotState:
        """With those made in a pass."""
        if made is None:
            return self
        both = ((getattr(self, f.name), getattr(made, f.name)) for f in fields(self))
        return SlotState(*(None if old is None else move.slots_after(old, new) for old, new in both))


@dataclass(frozen=True)
class CompressiveState(PartState):
    """Stored tokens and slots. Frozen, tokens are there as keys and values, and still as the sublayer received them,
    since they will be compressed."""

    by_token = True  # slots, too: a row without real tokens has none
    x: Growing
    slots: SlotState
    k: Growing | None = None
    v: Growing | None = None
    usage: Growing | None = None
    """Attention mass that each stored token got, if the compressor asks for it."""
    table: Constant | None = None
    """What the position projected from distances, stored with frozen keys."""

    @classmethod
    def before(cls, x_BLD: Float[Tensor, "B L D"], by_usage: bool) -> CompressiveState:
        """Before the first segment."""
        x_B0D = x_BLD.detach()[:, :0]
        nothing, none = Growing.of(x_B0D, 1), Growing.of(x_B0D[..., 0], 1)
        if not by_usage:
            return cls(nothing, SlotState(nothing))
        return cls(nothing, SlotState(nothing, i=Growing.of(x_B0D[..., 0].long(), 1)), usage=none)

    @property
    def frozen(self) -> bool:
        return self.k is not None

    def after(self, made: SlotState | None, move: Turnover, **columns: Growing | None) -> CompressiveState:
        """The state after a pass. columns: of what is stored of tokens, that of the stored and the new ones."""
        stored = {name: all_N for name, all_N in columns.items() if getattr(self, name) is not None}
        left = {name: move.tokens_after(all_N) for name, all_N in stored.items() if all_N is not None}
        return replace(self, slots=self.slots.after(made, move), **left)
