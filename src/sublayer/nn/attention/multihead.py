"""Multi-head self-attention: the frame that a pattern, a kernel, a position, a memory and a span fill."""

from __future__ import annotations

from typing import Any

from jaxtyping import Float
from pydantic import model_validator
from torch import Tensor, nn

from sublayer.nn import paths
from sublayer.nn.attention import one_query
from sublayer.nn.attention.heads import Heads, join_heads
from sublayer.nn.attention.kernel import Kernel, Load, Softmax, View
from sublayer.nn.attention.kernel.softmax import BANDS, DENSE
from sublayer.nn.attention.pattern import Causal, Pattern
from sublayer.nn.attention.projection import Projection, empty
from sublayer.nn.attention.span import FullSpan, Span
from sublayer.nn.attention.tiles import pairs as tiled_pairs
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
            self._check_slots()
            return self

        def _check_slots(self) -> None:
            """Slots that stand for several tokens, or for none, are at a distance, but have no number in a text."""
            by_distance = self.pattern.contiguous or self.pattern.unrestricted
            tokens = least(self.memory.reach, 2**20) or 0
            if not by_distance and self.memory.slots(tokens) != tokens:
                raise ValueError(
                    f"pattern={self.pattern.tag} counts tokens, and the slots of memory={self.memory.tag} are not "
                    "tokens; use pattern=causal or window, or memory=cache"
                )

        def at(self, nth: int, count: int) -> MultiHead.Config:
            pattern = self.pattern.at(nth, count)
            return self if pattern == self.pattern else self.but(pattern=pattern)

        @property
        def image_row(self) -> int | None:
            return self.pattern.image_row

        def for_images(self, row: int) -> MultiHead.Config:
            return self.but(pattern=self.pattern.for_images(row))

        @property
        def reach(self) -> int | None:
            if self.kernel.own_state:
                return self.memory.reach if self.kernel.grows else 0
            return least(self.pattern.reach, self.memory.reach, self.span.reach)

        @property
        def patterns(self) -> tuple[Pattern.Config, ...]:
            return self.pattern.by_head(self.heads)

        @property
        def outlasts(self) -> bool:
            """Whether it stores tokens that the pattern shows to queries however late they come, and not all others."""
            lasting = self.pattern.lasting != 0 and self.pattern.recent is not None
            return lasting and self.memory.outlasts and self.span.reach is None

        @property
        def recent(self) -> int | None:
            """How many of the last tokens it stores, beside those that outlast them; None for all."""
            return self.pattern.recent if self.outlasts else self.reach

        @property
        def bounded(self) -> bool:
            return self.reach is not None or (self.outlasts and self.pattern.lasting is not None)

        @property
        def sees(self) -> int | None:
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

        def remembering(self, tokens: int) -> dict[str, Any]:
            found = self.memory.remembering(tokens) if self.memory.hidden else {}
            return {f"memory.{name}": value for name, value in found.items()}

        @property
        def recalls(self) -> bool:
            return self.kernel.recalls and self.memory.recalls

        def honours(self, position: Position.Config) -> bool:
            return self.kernel.honours(position)

        def check(self, slot: Slot) -> None:
            H, _, K = self.sizes(slot.dim)
            self.position(slot).check(slot.dim, H, K)
            self.pattern.check(H)
            if self.both_ways and self.memory.reach != 0:
                raise ValueError(
                    f"a memory ({self.memory.tag}) carries the past on, but {self.pattern.tag} looks both ways; "
                    "use memory=none, or a causal pattern"
                )

        def check_length(self, length: int) -> None:
            self.kernel.check_length(length)
            try:
                self.pattern.check_length(length)
            except ValueError as error:
                raise ValueError(f"pattern={self.pattern.tag}: {error}") from None

        def position(self, slot: Slot) -> Position.Config:
            return slot.position or NoPosition.Config()

        def params(self, slot: Slot) -> int:
            H, G, K = self.sizes(slot.dim)
            wide = (H + 2 * G) * K
            projections = slot.dim * (wide + H * K) + ((wide + slot.dim) if self.bias else 0)
            own = self.kernel.params(slot, H, G, K) + self.memory.params(slot, G, K) + self.span.params(H)
            return projections + self.position(slot).layer_params(slot.dim, H, K) + own

        def shared_params(self, slot: Slot) -> dict[str, int]:
            return self.kernel.shared_params(*self.sizes(slot.dim))

        @property
        def shortest_text(self) -> int:
            return self.kernel.shortest_text

        def flops(self, slot: Slot, work: Work) -> int:
            H, G, K = self.sizes(slot.dim)
            L, M = work.length, work.length + self._slots(work)
            queries = 2 * L * slot.dim * H * K * 2
            again = self.memory.hidden and not work.frozen
            keys = 2 * (M if again else L) * slot.dim * G * K * 2
            # Only a frozen segment memory stores the table of distances; a growing cache projects it anew.
            stored = self.memory.hidden and work.frozen
            pairs, apart = self._pairs(slot, work, M)
            position = self.position(slot).layer_flops(H, K, slot.dim, L, apart, stored)
            weights = self.kernel.flops(Load(slot.dim, H, G, K, L, pairs, self.pattern.causal, M - L))
            own = self.memory.flops(slot, G, K, work) + H * self.memory.head_flops(K, work)
            return queries + keys + position + weights + own

        def _slots(self, work: Work) -> int:
            """Number of slots before the segment."""
            if self.outlasts:
                return self.pattern.stored(work.memory)
            return self.memory.offered(work.memory, least(self.reach, self.span.begins))

        def _pairs(self, slot: Slot, work: Work, M: int) -> tuple[int, int]:
            """Query–key pairs that are multiplied in all heads, masked ones included; and distances that queries ask
            about."""
            H, L, position = self.sizes(slot.dim)[0], work.length, self.position(slot).owner
            served = not position.acts_on_scores or position.biases_by_distance
            pairs, stored = H * L * M, min(work.memory, M - L)
            if self.memory.masks:
                return pairs, L + self.memory.behind(work.memory, least(self.reach, self.span.begins))
            if not self.kernel.by_bands:
                return pairs, M
            if L == 1 and not self.pattern.triangle:
                oldest = 0 if self.outlasts else work.memory - stored
                if (known := one_query.seen(self.pattern, H, work.memory, oldest)) is not None:
                    return H * known[0], known[1] + 1
            if L > 1 and served and (not self.outlasts or stored == work.memory):
                pairs = tiled_pairs(self._limited(), H, L, M - L, work.memory)
            return pairs, M if pairs == H * L * M else self._apart(L, M)

        def _limited(self) -> Pattern.Config:
            return self.pattern.within(self.span.begins).within(self.memory.sees)

        def _apart(self, L: int, M: int) -> int:
            """Distances between queries and keys that see each other."""
            pattern = self._limited()
            back = M if pattern.reach is None else min(pattern.reach + 1, M)
            return back if pattern.causal else back + L - 1

        def state_size(self, slot: Slot, work: Work) -> int:
            H, G, K = self.sizes(slot.dim)
            if self.kernel.own_state:
                tokens = work.memory + work.length
                return 0 if self.memory.reach == 0 else self.kernel.state_after(H, G, K, tokens)
            if self.outlasts:
                return 2 * G * K * self.pattern.stored(work.memory + work.length)
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
            read = new.normed() if self.config.kernel.reads_input else None
            view = View(scene, *known, dropout=dropout, heads=self.heads, x_BLD=read)
            y_BHLK, state = weigh(q_BHLK, k_BGLK, v_BGLK, view, state)
            state = None if self.config.memory.reach == 0 else state
        else:
            seen = self.memory.step(new, state, scene, self._reach(scene))
            k_BGMK, v_BGMK, state = seen.k_BGMK, seen.v_BGMK, seen.state
            earlier = k_BGMK.shape[2] - scene.length
            view = View(seen.scene, *known, earlier, self.span, seen.table, dropout, self.heads, seen.far_F)
            y_BHLK, _ = weigh(new.queries(), k_BGMK, v_BGMK, view)
        if self.span is not None:
            self.span.add_loss(scene)
        return self.output(join_heads(y_BHLK)), state

    def forward_normed(
        self, norm: nn.Module, x_BLD: Float[Tensor, "B L D"], scene: Scene, state: Any = None
    ) -> tuple[Float[Tensor, "B L D"], Any]:
        return self(x_BLD, scene, state, norm)

    def exact(self, x_BLD: Float[Tensor, "B L D"], scene: Scene) -> Float[Tensor, "B L D"] | None:
        new, kernel = Projection(self, None, x_BLD, scene), self.config.kernel
        read = new.normed() if kernel.reads_input else None
        known = self.position, self.config.pattern, self.config.memory
        k_BGLK, v_BGLK = new.own()
        q_BHLK = self.position.query(new.queries(), scene) if kernel.own_state else new.queries()
        y_BHLK = self.kernel.exact(q_BHLK, k_BGLK, v_BGLK, View(scene, *known, heads=self.heads, x_BLD=read))
        return None if y_BHLK is None else self.output(join_heads(y_BHLK))

    def skip(self, norm: nn.Module, x_BLD: Float[Tensor, "B L D"], scene: Scene, state: Any = None) -> Any:
        if self.config.kernel.own_state:
            return super().skip(norm, x_BLD, scene, state)
        return self.memory.skip(Projection(self, norm, x_BLD, scene), state, scene, self._reach(scene))

    def freeze(self, norm: nn.Module, state: Any, scene: Scene) -> Any:
        if self.config.kernel.own_state:
            return state
        return self.memory.freeze(empty(self, norm, scene), state, scene, self._reach(scene))

    def _reach(self, scene: Scene) -> int | None:
        """How many of the last tokens any head looks at now; None for all. Those that outlast them are not counted."""
        return self.config.recent if self.span is None else least(self.config.recent, self.span.sees(scene))

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
        if not self.config.kernel.by_bands:
            return self.kernel.path(self, mode)
        bands = paths.report(BANDS, self, mode)
        dense = paths.report(DENSE, self, mode, plain="PyTorch's attention")
        return bands if bands.path != paths.PLAIN else paths.Choice(dense.path, (*bands.why_not, *dense.why_not))
