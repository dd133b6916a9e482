"""Part: a module D → D that fills a slot of the stack; with `Slot` and `Work`, what it is built for and costed for.

A part's Config answers what others need to know about it. Each answer has a default that is right for a part that
looks at one token at a time and remembers nothing; an attention overrides what is different about it.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from torch import Tensor, nn

from sublayer.nn import paths
from sublayer.nn.config import Config
from sublayer.nn.scene import Scene
from sublayer.nn.shared import SharedModules

if TYPE_CHECKING:
    from sublayer.nn.attention.pattern.base import Pattern
    from sublayer.nn.position.base import Position


@dataclass(frozen=True)
class Slot:
    """Where a part stands: the sizes and shared modules its parent knows, so that no config repeats them."""

    dim: int
    position: Position.Config | None = None
    """The stack's position; None where there is no stack, as when a part is tried alone."""
    shared: Position | None = None
    """The stack's own position module, which holds what its layers share; None while costing."""
    index: int = 0
    """The sublayer's index in the stack, from 0."""
    depth: int = 1
    """Number of sublayers in the stack."""
    common: SharedModules | None = None
    """Other modules that layers of the stack share; None while costing, and where a part is tried alone."""


@dataclass(frozen=True)
class Work:
    """One forward pass to be costed: `length` new tokens after `memory` earlier ones, for one row.

    frozen: earlier tokens are stored as keys and values, not as hidden states to be projected again.
    """

    length: int
    memory: int = 0
    source: int = 0
    frozen: bool = True
    globals: int = 0
    """How many of the new tokens, the first ones, are global ones that the stack put in front."""


class Part(nn.Module):
    """D → D, with a state of its own if it remembers: `y_BLD, state = part(x_BLD, scene, state)`.

    `state` is None before the first segment; a part that remembers nothing returns None.
    """

    class Config(Config, family="part"):
        def at(self, nth: int, count: int) -> Part.Config:
            """The part in the nth of the `count` places that its letter has in a layout."""
            return self

        @property
        def image_row(self) -> int | None:
            """Tokens of a row of the images that it is made for; None: it reads tokens as one line."""
            return None

        def for_images(self, row: int) -> Part.Config:
            """The part for images whose rows have so many tokens; itself where that makes no difference."""
            return self

        @property
        def attends(self) -> bool:
            """Whether tokens exchange information in it."""
            return False

        @property
        def both_ways(self) -> bool:
            """Whether a token sees later ones; a stack that reads left to right refuses such parts."""
            return False

        @property
        def patterns(self) -> tuple[Pattern.Config, ...]:
            """For each head, who sees whom among the stream's tokens; none where no pattern decides that."""
            return ()

        @property
        def sees(self) -> int | None:
            """How many earlier tokens a query sees at most, wherever the segments are cut; None for all there are."""
            return None if self.attends else 0

        @property
        def view(self) -> str:
            """Name, for errors, of what decides which tokens a token sees."""
            return self.tag

        def turned(self, causal: bool) -> str:
            """The setting, for errors, with which it would look back only, or both ways."""
            return f"pattern={'causal' if causal else 'full'}"

        @property
        def knows_globals(self) -> bool:
            """Whether it treats the tokens that a stack puts in front (`scene.globals`) as global ones."""
            return False

        @property
        def needs_source(self) -> bool:
            """Whether it reads a source beside the stream (cross-attention)."""
            return False

        @property
        def recalls(self) -> bool:
            """Whether it can read keys and values that a stack makes and stores (Feedback) instead of its own."""
            return False

        def honours(self, position: Position.Config) -> bool:
            """Whether it calls the attention hooks of this position. A pair that does not match is refused."""
            return not position.acts_in_attention

        @property
        def splits(self) -> bool:
            """Whether its mathematics depends on where segments are cut; then `segments=` gives the cuts of a pass."""
            return False

        @property
        def carries(self) -> bool:
            """Whether training should pass its state on from batch to batch: it reads a memory of hidden states."""
            return False

        @property
        def reach(self) -> int | None:
            """How many earlier tokens its state holds; None: all of them, so that the state grows without end."""
            return None if self.attends else 0

        @property
        def bounded(self) -> bool:
            """Whether its state stops growing, however long the text."""
            return self.reach is not None

        @property
        def remembered(self) -> int:
            """Number of tokens that a memory of bounded length stores, which cost counts by default; 0 without one."""
            return 0

        def remembering(self, tokens: int) -> dict[str, Any]:
            """The settings with which it remembers so many earlier tokens; none where that is nothing to set."""
            return {}

        def starts_from(self, other: Part.Config) -> bool:
            """Whether training may start from the weights of that part: they fit, and mean the same in both."""
            return self == other

        def head_dim_in(self, dim: int) -> int | None:
            """Size of its heads in a model of this width; None if it has none."""
            return None

        def check(self, slot: Slot) -> None:
            """Raise ValueError where it cannot be built in this slot."""

        def check_length(self, length: int) -> None:
            """Raise ValueError where it cannot read texts of so many tokens, or they are too short for what it is."""

        def build(self, slot: Slot) -> Part:
            return self.owner(self, slot)

        def params(self, slot: Slot) -> int:
            """Parameters, counted without building."""
            raise NotImplementedError(f"{type(self).__qualname__} does not count its parameters; define params(slot)")

        def shared_params(self, slot: Slot) -> dict[str, int]:
            """Parameters that it shares with other layers, by the name of the module in `slot.common`; the stack counts
            each name once, and `params` none of them."""
            return {}

        @property
        def shortest_text(self) -> int:
            """Tokens of the shortest text in which all its parameters have an effect."""
            return 1

        def flops(self, slot: Slot, work: Work) -> int:
            """Matmul work of one forward pass, 2 per multiply-add."""
            raise NotImplementedError(f"{type(self).__qualname__} does not count its FLOPs; define flops(slot, work)")

        def state_size(self, slot: Slot, work: Work) -> int:
            """Numbers in its state, per row, after a pass over `work.memory` tokens and one over `work.length` more."""
            return 0

        @property
        def state_varies(self) -> bool:
            """Whether the size of its state depends on learned values; `state_size` is then the most it can be."""
            return False

        def activation_size(self, slot: Slot, work: Work, rows: int = 1) -> int:
            """Numbers certainly held at one time while it computes; a lower bound."""
            return 0

    def forward(self, x_BLD: Tensor, scene: Scene, state: Any = None) -> tuple[Tensor, Any]:
        raise NotImplementedError

    def forward_normed(self, norm: nn.Module, x_BLD: Tensor, scene: Scene, state: Any = None) -> tuple[Tensor, Any]:
        """The part on norm(x). Overridden where both are done at once, or where x itself is remembered."""
        return self(norm(x_BLD), scene, state)

    def skip(self, norm: nn.Module, x_BLD: Tensor, scene: Scene, state: Any = None) -> Any:
        """The state after a segment whose output is not used (LayerDrop)."""
        return self.forward_normed(norm, x_BLD, scene, state)[1]

    def freeze(self, norm: nn.Module, state: Any, scene: Scene) -> Any:
        """The state as inference wants it, computed once: hidden states become keys and values. `norm` is the
        sublayer's, before the part; the segment of `scene` is empty, its past is what the state remembers."""
        return state

    def path(self, mode: paths.Mode) -> paths.Choice:
        """Which path it takes, and why not a faster one."""
        return paths.Choice(paths.PLAIN)

    @property
    def output_maps(self) -> list[nn.Linear]:
        """The maps whose output joins the stream; with depth, their initial weights are made smaller."""
        output = getattr(self, "output", None)
        return [output] if isinstance(output, nn.Linear) else []

    def before_activation(self) -> tuple[nn.Module, int] | None:
        """The module whose output enters its activation, and how many of that output's first channels do; None if it
        has no activation. Used to count active units."""
        return None

    def linearized(self) -> AbstractContextManager[object]:
        """Inside this context the part is linear in x: activations return their input, gates are open. For proxies that
        trace the flow through a network of positive weights."""
        return nullcontext()

    def score_weights(self) -> dict[str, slice]:
        """Parameters that only decide how strongly tokens attend to each other: name → their rows."""
        return {}

    def exact(self, x_BLD: Tensor, scene: Scene) -> Tensor | None:
        """What it would give if it did not approximate: the exact attention, with the same weights. None where it
        approximates nothing."""
        return None

    @property
    def twin(self) -> str | None:
        """The slow, obvious implementation it is compared with; None if there is none. `nn/paths.py` switches to it."""
        return None
