"""Kernel: how attention weights are formed from queries and keys, and applied to values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from jaxtyping import Float
from torch import Tensor, nn

from sublayer.nn import paths
from sublayer.nn.attention.pattern import Pattern, Sight, sight
from sublayer.nn.attention.span import Span
from sublayer.nn.config import Config
from sublayer.nn.memory import KeyValues, Memory
from sublayer.nn.part import Slot
from sublayer.nn.position.base import Position
from sublayer.nn.scene import Scene


@dataclass(frozen=True)
class View:
    """What a kernel may use besides queries, keys and values."""

    scene: Scene
    """Positions and validity of the segment, and of the slots before it."""
    position: Position
    pattern: Pattern.Config
    memory: Memory.Config
    remembered: int = 0
    """M − L: number of keys before the segment."""
    span: Span | None = None
    table: Tensor | None = None
    """What the position projected from distances, if a frozen state stores it."""
    dropout: float = 0.0
    """Dropout rate on the weights; 0 in eval mode."""
    heads: int = 1
    """Query heads, among which a pattern may be divided."""
    far_F: Tensor | None = None
    """As in `Attended`: which tokens the first F slots hold, where these are not the ones just before the others."""

    x_BLD: Tensor | None = None
    """What queries, keys and values are projected from; only for a kernel that `reads_input`."""

    @property
    def sight(self) -> Sight:
        """Which keys each query may see: pattern, memory and padding in one."""
        return sight(self.scene, self.pattern, self.memory, self.remembered, self.heads)


@dataclass(frozen=True)
class Load:
    """What a kernel has to do in one pass, for counting."""

    dim: int
    heads: int
    groups: int
    head_dim: int
    length: int
    """Queries of each head."""
    pairs: int
    """Query–key pairs that meet, in all heads together, if it follows the pattern; else of the full rectangle."""
    causal: bool
    memory: int = 0
    """Earlier tokens that are remembered, one by one or in a state that grows with them."""


class Kernel(nn.Module):
    """Abstract: `y_BHLK, state = kernel(q_BHLK, k_BGMK, v_BGMK, view, state)`.

    A kernel without a state of its own is given the keys and values that the memory offers, and returns None. One with
    a state (`own_state`) is given the segment's own, carries what it needs of the past, and takes the memory's part.
    Keys come with their position applied; queries too where the kernel has a state, else by `view.position.query`,
    since some biases are formed from queries before that.
    """

    class Config(Config, family="kernel"):
        own_state: ClassVar[bool] = False
        """Whether it carries a state of its own instead of reading a memory."""
        grows: ClassVar[bool] = False
        """Whether its own state grows with the text; then `state_after` says how."""
        by_bands: ClassVar[bool] = False
        """Whether its work follows the pattern's bands; else it is the full rectangle."""
        reads_input: ClassVar[bool] = False
        """Whether it forms something from the attention's input, beside queries, keys and values."""
        recalls: ClassVar[bool] = False
        """Whether a stack that owns the memory (Feedback) forms weights as this kernel does."""
        crosses: ClassVar[bool] = False
        """Whether cross-attention can form weights by it: it has `store` and `across`."""

        @property
        def splits(self) -> bool:
            """Whether the result depends on where segments are cut."""
            return False

        @property
        def carries(self) -> bool:
            """Whether training should pass its state on from batch to batch."""
            return False

        def honours(self, position: Position.Config) -> bool:
            """Whether a position has its full effect. One that rotates queries and keys always has; one that adds to
            scores needs scores, which not every kernel forms."""
            return not position.owner.acts_on_scores

        def check(self, pattern: Pattern.Config, memory: Memory.Config, span: Span.Config) -> None:
            """Raise ValueError for options that it would ignore."""
            if span.reach is not None:
                raise ValueError(f"kernel={self.tag} has no spans; use span=full, or kernel=softmax")
            if not self.own_state:
                return
            if not pattern.triangle and not pattern.unrestricted:
                raise ValueError(
                    f"kernel={self.tag} sums over all that stands before, but pattern={pattern.tag} hides some of it; "
                    "use pattern=causal or full, or kernel=softmax"
                )
            if memory.hidden or memory.reach not in (None, 0):
                raise ValueError(
                    f"kernel={self.tag} has a state of its own, but memory={memory.tag} stores the past as well; leave "
                    "memory out, or use kernel=softmax"
                )

        def check_length(self, length: int) -> None:
            """Raise ValueError where it cannot read texts of so many tokens."""

        def build(self, slot: Slot, heads: int, groups: int, head_dim: int) -> Kernel:
            return self.owner(self, slot, heads, groups, head_dim)

        def params(self, slot: Slot, heads: int, groups: int, head_dim: int) -> int:
            return 0

        def shared_params(self, heads: int, groups: int, head_dim: int) -> dict[str, int]:
            """As `Part.Config.shared_params`."""
            return {}

        @property
        def shortest_text(self) -> int:
            """Tokens of the shortest text in which all its parameters have an effect."""
            return 1

        def flops(self, load: Load) -> int:
            """Matmul work of one row; scores and weighted values."""
            return 2 * 2 * load.head_dim * load.pairs

        def state_size(self, heads: int, groups: int, head_dim: int) -> int:
            """Numbers in a state of its own, per row."""
            return 0

        def state_after(self, heads: int, groups: int, head_dim: int, tokens: int) -> int:
            """`state_size` after so many tokens."""
            return self.state_size(heads, groups, head_dim)

        def stored(self, source: int) -> int:
            """Keys that cross-attention stores of a source of so many tokens."""
            return source

        def storing_flops(self, groups: int, head_dim: int, source: int) -> int:
            """Matmul work of making these of the source's projected keys and values."""
            return 0

    def __init__(self, config: Kernel.Config, slot: Slot, heads: int, groups: int, head_dim: int) -> None:
        super().__init__()
        self.config = config

    def forward(
        self,
        q_BHLK: Float[Tensor, "B H L K"],
        k_BGMK: Float[Tensor, "B G M K"],
        v_BGMK: Float[Tensor, "B G M K"],
        view: View,
        state: Any = None,
    ) -> tuple[Float[Tensor, "B H L K"], Any]:
        raise NotImplementedError

    def reference(
        self, q_BHLK: Tensor, k_BGMK: Tensor, v_BGMK: Tensor, view: View, state: Any = None
    ) -> tuple[Tensor, Any]:
        """The slow, obvious twin of `forward`; the laws compare the two in values and in gradients."""
        raise NotImplementedError

    def exact(self, q_BHLK: Tensor, k_BGMK: Tensor, v_BGMK: Tensor, view: View) -> Tensor | None:
        """The attention that it approximates, of a first segment; None where it approximates none."""
        return None

    def attention_weights(self, q_BHLK: Tensor, k_BGMK: Tensor, view: View) -> Float[Tensor, "B H L M"] | None:
        """How much of each key every query reads, given as to `forward`; None: it forms no such weights."""
        return None

    def store(self, k_BGSK: Float[Tensor, "B G S K"], v_BGSK: Float[Tensor, "B G S K"], source: Scene) -> KeyValues:
        """What cross-attention stores of its source; `source` is the scene of the source's tokens."""
        return KeyValues.of(k_BGSK, v_BGSK)

    def across(
        self, q_BHLK: Float[Tensor, "B H L K"], stored: KeyValues, source: Scene, dropout: float
    ) -> Float[Tensor, "B H L K"]:
        """Cross-attention of these queries on what is stored of the source; by its slow twin where paths are slow."""
        raise NotImplementedError

    def path(self, part: nn.Module, mode: paths.Mode) -> paths.Choice:
        """Which path it takes in this attention, if its work does not follow bands."""
        return paths.Choice(f"kernel={self.config.tag} (PyTorch)")

    @property
    def twin(self) -> str | None:
        """The name of the slow twin; None if there is none."""
        mine = type(self).reference
        return None if mine is Kernel.reference else mine.__qualname__
