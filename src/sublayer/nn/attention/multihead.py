"""Multi-head self-attention: the frame that a pattern, a kernel, a position, a memory and a span fill."""

from __future__ import annotations

from typing import Any

from jaxtyping import Float
from pydantic import model_validator
from torch import Tensor, nn

from sublayer.nn import paths
from sublayer.nn.attention.heads import Heads, join_heads
from sublayer.nn.attention.kernel import Kernel, Softmax, View
from sublayer.nn.attention.kernel.softmax import BLOCKS, DENSE
from sublayer.nn.attention.pattern import Causal, Pattern
from sublayer.nn.attention.projection import Projection, empty
from sublayer.nn.attention.span import FullSpan, Span
from sublayer.nn.limits import least
from sublayer.nn.linear import linear
from sublayer.nn.memory import Cache, Memory
from sublayer.nn.part import Slot, Work
from sublayer.nn.position.base import Position
from sublayer.nn.position.none import NoPosition
from sublayer.nn.scene import Scene


class MultiHead(Heads):
    """concat_h(softmax(q_h k_hᵀ/√K) v_h) W_o (Vaswani et al. 2017, section 3.2.2), or another kernel's weights.

    Fewer key/value heads than query heads make it grouped-query (Ainslie et al. 2023), one makes it multi-query
    (Shazeer 2019). Queries, keys and values come from one fused matrix, in that order.
    """

    class Config(Heads.Config, tag="multihead"):
        added = frozenset({"kernel"})

        pattern: Pattern.Config = Causal.Config()
        """Which tokens a token may see."""
        memory: Memory.Config = Cache.Config()
        """What is stored of earlier segments."""
        span: Span.Config = FullSpan.Config()
        """How far back each head looks."""
        kernel: Kernel.Config = Softmax.Config()
        """How weights are formed from queries and keys."""

        @model_validator(mode="after")
        def _possible(self) -> MultiHead.Config:
            limit, stored = self.span.reach, self.memory.reach
            if self.memory.hidden and limit is not None and stored is not None and limit > stored:
                raise ValueError(
                    f"span.limit={limit}: a head may come to look at {limit} tokens, but memory.length={stored} stores "
                    f"fewer; use a limit up to {stored}, or a longer memory"
                )
            self.kernel.check(self.pattern, self.memory, self.span)
            return self

        @property
        def reach(self) -> int | None:
            if self.kernel.own_state:
                return 0  # a state of its own does not grow with the text
            return least(self.pattern.reach, self.memory.reach, self.span.reach)

        @property
        def sees(self) -> int | None:
            """How many earlier tokens a query sees at most, wherever the segments are cut; None for all there are."""
            return least(self.pattern.reach, self.memory.sees, self.span.reach)

        @property
        def splits(self) -> bool:
            return self.memory.splits or self.kernel.splits

        @property
        def both_ways(self) -> bool:
            return not self.pattern.causal

        @property
        def view(self) -> str:
            return f"pattern={self.pattern.tag}"

        @property
        def carries(self) -> bool:
            return self.memory.carries or self.kernel.carries

        @property
        def remembered(self) -> int:
            return self.memory.reach or 0

        @property
        def recalls(self) -> bool:
            return self.kernel.recalls and self.memory.recalls

        def honours(self, position: Position.Config) -> bool:
            return self.kernel.honours(position)

        def check(self, slot: Slot) -> None:
            H, _, K = self.sizes(slot.dim)
            self.position(slot).check(slot.dim, H, K)
            if self.both_ways and self.memory.reach != 0:
                raise ValueError(
                    f"a memory ({self.memory.tag}) carries the past on, but {self.pattern.tag} looks both ways; "
                    "use memory=none, or a causal pattern"
                )

        def position(self, slot: Slot) -> Position.Config:
            return slot.position or NoPosition.Config()

        def params(self, slot: Slot) -> int:
            H, G, K = self.sizes(slot.dim)
            wide = (H + 2 * G) * K
            projections = slot.dim * (wide + H * K) + ((wide + slot.dim) if self.bias else 0)
            own = self.kernel.params(slot, H, G, K) + self.memory.params(slot, G, K) + self.span.params(H)
            return projections + self.position(slot).layer_params(slot.dim, H, K) + own

        def flops(self, slot: Slot, work: Work) -> int:
            H, G, K = self.sizes(slot.dim)
            L, M = work.length, work.length + self._slots(work)
            queries = 2 * L * slot.dim * H * K * 2
            again = self.memory.hidden and not work.frozen
            keys = 2 * (M if again else L) * slot.dim * G * K * 2
            # Only a frozen segment memory stores the table of distances; a growing cache projects it anew.
            stored = self.memory.hidden and work.frozen
            position = self.position(slot).layer_flops(H, K, slot.dim, L, M, stored)
            weights = self.kernel.flops(H, G, K, L, self._pairs(slot, L, M))
            return queries + keys + position + weights + self.memory.flops(slot, G, K, work)

        def _slots(self, work: Work) -> int:
            """Number of slots before the segment."""
            return self.memory.slots(least(work.memory, self.reach, self.span.begins) or 0)

        def _pairs(self, slot: Slot, L: int, M: int) -> int:
            """Query–key pairs that are multiplied, masked ones included."""
            position = self.position(slot).owner
            followed = self.kernel.by_blocks and not position.acts_on_scores and not self.memory.masks
            return self.pattern.within(self.span.begins).pairs(L, M - L) if followed else L * M

        def state_size(self, slot: Slot, work: Work) -> int:
            H, G, K = self.sizes(slot.dim)
            if self.kernel.own_state:
                return 0 if self.memory.reach == 0 else self.kernel.state_size(H, G, K)
            return self.memory.state_size(slot, G, K, work, self.reach)

        @property
        def state_varies(self) -> bool:
            return self.span.reach is not None

        def activation_size(self, slot: Slot, work: Work, rows: int = 1) -> int:
            """Queries, keys and values; and scores where they are formed as a matrix, for a bias or to be weighed."""
            (H, G, K), position = self.sizes(slot.dim), self.position(slot).owner
            scores = H * work.length * (work.length + self._slots(work)) if position.acts_on_scores else 0
            return rows * work.length * (H + 2 * G) * K + (1 if position.bias_is_constant else rows) * scores

    def __init__(self, config: Config, slot: Slot) -> None:
        super().__init__()
        self.config = config
        self.heads, self.groups, self.head_dim = config.sizes(slot.dim)
        self.qkv = linear(slot.dim, (self.heads + 2 * self.groups) * self.head_dim, config.bias)
        self.output = linear(self.heads * self.head_dim, slot.dim, config.bias)
        self.position = config.position(slot).build_layer(slot.dim, self.heads, self.head_dim, slot.shared)
        self.position_tag = config.position(slot).tag
        self.span = config.span.build(self.heads)
        self.memory = config.memory.build(slot, self.groups, self.head_dim)
        self.kernel = config.kernel.build(slot, self.heads, self.groups, self.head_dim)

    def score_weights(self) -> dict[str, slice]:
        """Queries and keys."""
        return {"qkv.weight": slice(0, (self.heads + self.groups) * self.head_dim)}

    def forward(
        self, x_BLD: Float[Tensor, "B L D"], scene: Scene, state: Any = None, norm: nn.Module | None = None
    ) -> tuple[Float[Tensor, "B L D"], Any]:
        """`norm`: applied to x before the projection, and to what the memory stores of x."""
        new = Projection(self, norm, x_BLD, scene)
        weigh = self.kernel.reference if paths.slow() and self.kernel.twin else self.kernel
        dropout = self.config.dropout if self.training else 0.0
        known = self.position, self.config.pattern, self.config.memory
        if self.config.kernel.own_state:
            k_BGLK, v_BGLK = new.own()
            q_BHLK = self.position.query(new.queries(), scene)
            y_BHLK, state = weigh(q_BHLK, k_BGLK, v_BGLK, View(scene, *known, dropout=dropout), state)
            state = None if self.config.memory.reach == 0 else state
        else:
            seen = self.memory.step(new, state, scene, self._reach(scene))
            k_BGMK, v_BGMK, state = seen.k_BGMK, seen.v_BGMK, seen.state
            view = View(seen.scene, *known, k_BGMK.shape[2] - scene.length, self.span, seen.table, dropout)
            y_BHLK, _ = weigh(new.queries(), k_BGMK, v_BGMK, view)
        if self.span is not None:
            self.span.add_loss(scene)
        return self.output(join_heads(y_BHLK)), state

    def forward_normed(
        self, norm: nn.Module, x_BLD: Float[Tensor, "B L D"], scene: Scene, state: Any = None
    ) -> tuple[Float[Tensor, "B L D"], Any]:
        return self(x_BLD, scene, state, norm)

    def skip(self, norm: nn.Module, x_BLD: Float[Tensor, "B L D"], scene: Scene, state: Any = None) -> Any:
        if self.config.kernel.own_state:
            return super().skip(norm, x_BLD, scene, state)
        return self.memory.skip(Projection(self, norm, x_BLD, scene), state, scene, self._reach(scene))

    def freeze(self, norm: nn.Module, state: Any, scene: Scene) -> Any:
        if self.config.kernel.own_state:
            return state
        return self.memory.freeze(empty(self, norm, scene), state, scene, self._reach(scene))

    def _reach(self, scene: Scene) -> int | None:
        """How many earlier tokens any head looks at now; None for all."""
        return self.config.reach if self.span is None else least(self.config.reach, self.span.sees(scene))

    @property
    def twin(self) -> str | None:
        return self.kernel.twin

    @property
    def masked(self) -> str | None:
        """The option that makes its scores need a mask in an unpadded first segment; None if there is none."""
        config = self.config
        if self.span is not None:
            return f"span={config.span.tag}"
        if not (config.pattern.triangle or config.pattern.unrestricted):
            return f"pattern={config.pattern.tag}"
        return f"memory={config.memory.tag}" if config.memory.masks else None

    def path(self, mode: paths.Mode) -> paths.Choice:
        if not self.config.kernel.by_blocks:
            return paths.Choice(f"kernel={self.config.kernel.tag} (PyTorch)")
        blocks = paths.report(BLOCKS, self, mode)
        dense = paths.report(DENSE, self, mode, plain="PyTorch's attention")
        return blocks if blocks.path != paths.PLAIN else paths.Choice(dense.path, (*blocks.why_not, *dense.why_not))
