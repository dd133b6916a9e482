"""Multi-head self-attention: the frame that a pattern, a position, a memory and a span fill."""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Float
from pydantic import model_validator
from torch import Tensor, nn
from torch.nn import functional as F

from sublayer.nn import normed_linear
from sublayer.nn.attention.blocks import attend_blocks, serves, spread
from sublayer.nn.attention.heads import Heads, join_heads, split_heads
from sublayer.nn.attention.kernel import attend
from sublayer.nn.attention.pattern import Causal, Pattern, Window, narrowed, sight
from sublayer.nn.attention.span import FullSpan, Span
from sublayer.nn.hooked import hooked
from sublayer.nn.limits import least
from sublayer.nn.linear import linear
from sublayer.nn.memory import Cache, Hidden, KeyValues, NoMemory, Remember
from sublayer.nn.part import Slot, Work
from sublayer.nn.position.base import Position
from sublayer.nn.position.none import NoPosition
from sublayer.nn.scene import Scene
from sublayer.nn.state import Constant, Growing


class MultiHead(Heads):
    """concat_h(softmax(q_h k_hᵀ/√K) v_h) W_o (Vaswani et al. 2017, section 3.2.2).

    Fewer key/value heads than query heads make it grouped-query (Ainslie et al. 2023), one makes it multi-query
    (Shazeer 2019). Queries, keys and values come from one fused matrix, in that order.
    """

    class Config(Heads.Config, tag="multihead"):
        pattern: Pattern.Config = Causal.Config()
        """Who may see whom."""
        memory: Remember.Config = Cache.Config()
        """What is kept of earlier segments."""
        span: Span.Config = FullSpan.Config()
        """How far back each head looks."""

        @model_validator(mode="after")
        def _spans_what_is_kept(self) -> MultiHead.Config:
            limit, kept = self.span.reach, self.memory.reach
            if self.memory.hidden and limit is not None and kept is not None and limit > kept:
                raise ValueError(
                    f"span.limit={limit}: a head may come to look at {limit} places, but memory.length={kept} keeps "
                    f"fewer; use a limit up to {kept}, or a longer memory"
                )
            return self

        @property
        def reach(self) -> int | None:
            """How many earlier places are kept at most; None for all."""
            return least(self.pattern.reach, self.memory.reach, self.span.reach)

        @property
        def sees(self) -> int | None:
            """How many earlier places a query sees at most, wherever the segments are cut; None for all there are."""
            return least(self.pattern.reach, self.memory.sees, self.span.reach)

        @property
        def splits(self) -> bool:
            return self.memory.splits

        @property
        def both_ways(self) -> bool:
            return not self.pattern.causal

        @property
        def view(self) -> str:
            return f"pattern={self.pattern.tag}"

        @property
        def recalls(self) -> bool:
            return True

        def honours(self, position: Position.Config) -> bool:
            return True

        @property
        def carries(self) -> bool:
            return self.memory.hidden

        @property
        def remembered(self) -> int:
            return self.memory.reach or 0

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
            return projections + self.position(slot).layer_params(slot.dim, H, K) + self.span.params(H)

        def flops(self, slot: Slot, work: Work) -> int:
            H, G, K = self.sizes(slot.dim)
            memory = least(work.memory, self.reach, self.span.begins) or 0
            again = self.memory.hidden and not work.frozen
            L, M = work.length, memory + work.length
            queries = 2 * L * slot.dim * H * K * 2
            keys = 2 * (M if again else L) * slot.dim * G * K * 2
            # Only a frozen segment memory keeps the table of distances; a growing cache projects it anew.
            kept = self.memory.hidden and work.frozen
            position = self.position(slot).layer_flops(H, K, slot.dim, L, M, kept)
            return queries + keys + position + 2 * 2 * H * K * self._pairs(slot, L, M)

        def state_size(self, slot: Slot, work: Work) -> int:
            if self.memory.reach == 0:
                return 0
            _, G, K = self.sizes(slot.dim)
            wide = slot.dim if self.memory.hidden and not work.frozen else 2 * G * K
            return wide * (work.length + (least(work.memory, self.reach) or 0))

        def activation_size(self, slot: Slot, work: Work, rows: int = 1) -> int:
            """Queries, keys and values; and scores where they are formed as a matrix, for a bias or to be weighed."""
            (H, G, K), position = self.sizes(slot.dim), self.position(slot).owner
            attended = work.length + (least(work.memory, self.reach) or 0)
            scores = H * work.length * attended if position.acts_on_scores else 0
            return rows * work.length * (H + 2 * G) * K + (1 if position.bias_is_constant else rows) * scores

        def _pairs(self, slot: Slot, L: int, M: int) -> int:
            """Queries × keys that are multiplied, masked ones included."""
            window = self.blocks(self.span.begins, self.position(slot).owner, L)
            return L * M if window is None else -(-L // window.size) * window.size * spread(window)

        def blocks(self, sees: int | None, position: type[Position], length: int) -> Window.Config | None:
            """The window to attend by, if nothing needs the full rectangle of an even pass: no bias of a position, no
            second mask of a segment memory. `sees`: how many earlier places the span in use sees."""
            window = narrowed(self.pattern, sees)
            served = not position.acts_on_scores and not self.memory.hidden and serves(window, length)
            return window if served and isinstance(window, Window.Config) else None

    def __init__(self, config: Config, slot: Slot) -> None:
        super().__init__()
        self.config = config
        self.heads, self.groups, self.head_dim = config.sizes(slot.dim)
        self.qkv = linear(slot.dim, (self.heads + 2 * self.groups) * self.head_dim, config.bias)
        self.output = linear(self.heads * self.head_dim, slot.dim, config.bias)
        self.position = config.position(slot).build_layer(slot.dim, self.heads, self.head_dim, slot.shared)
        self.span = config.span.build(self.heads)

    def forward(
        self, x_BLD: Float[Tensor, "B L D"], scene: Scene, state: KeyValues | Hidden | None = None
    ) -> tuple[Float[Tensor, "B L D"], KeyValues | Hidden | None]:
        if self.config.memory.hidden and not isinstance(state, KeyValues):
            return self._attend(*self._read_hidden(x_BLD, scene, state), scene)
        return self._attend(*self._read_keys(self.qkv(x_BLD), scene, state), scene)

    def forward_normed(
        self, norm: nn.Module, x_BLD: Float[Tensor, "B L D"], scene: Scene, state: KeyValues | Hidden | None = None
    ) -> tuple[Float[Tensor, "B L D"], KeyValues | Hidden | None]:
        if self.config.memory.hidden or hooked(self) or not normed_linear.serves(norm, self.qkv, x_BLD):
            return self(norm(x_BLD), scene, state)
        assert isinstance(norm, nn.LayerNorm)
        assert not isinstance(state, Hidden)
        qkv_BLZ = normed_linear.normed_linear(norm, self.qkv, x_BLD)
        return self._attend(*self._read_keys(qkv_BLZ, scene, state), scene)

    def _attend(
        self, q_BHLK: Tensor, k_BGMK: Tensor, v_BGMK: Tensor, state: KeyValues | Hidden | None, scene: Scene
    ) -> tuple[Tensor, KeyValues | Hidden | None]:
        dropout = self.config.dropout if self.training else 0.0
        sees = None if self.span is None else self.span.sees(scene)
        window = self.config.blocks(sees, type(self.position), scene.length) if scene.even else None
        if window is not None:
            y_BHLK = attend_blocks(q_BHLK, k_BGMK, v_BGMK, window, self.position, scene, dropout, self.span)
        else:
            seen = sight(scene, self.config.pattern, self.config.memory, k_BGMK.shape[2] - q_BHLK.shape[2])
            table = state.table.value if isinstance(state, KeyValues) and state.table else None
            y_BHLK = attend(q_BHLK, k_BGMK, v_BGMK, seen, self.position, scene, table, dropout, self.span)
        if self.span is not None:
            self.span.add_loss(scene)
        return self.output(join_heads(y_BHLK)), state

    def skip(
        self, norm: nn.Module, x_BLD: Float[Tensor, "B L D"], scene: Scene, state: Any = None
    ) -> KeyValues | Hidden | None:
        x_BLD = norm(x_BLD)
        if self.config.memory.hidden and not isinstance(state, KeyValues):
            return self._keep_hidden(x_BLD, state)
        return self._read_keys(self.qkv(x_BLD), scene, state)[3]

    def _reach(self, scene: Scene) -> int | None:
        """How many earlier places any head looks at now; None for all."""
        return self.config.reach if self.span is None else least(self.config.reach, self.span.sees(scene))

    def _read_keys(
        self, qkv_BLZ: Tensor, scene: Scene, state: KeyValues | Hidden | None
    ) -> tuple[Tensor, Tensor, Tensor, KeyValues | None]:
        """The segment's keys and values after the remembered ones."""
        assert not isinstance(state, Hidden)
        q_BHLK, k_BGLK, v_BGLK = self._split(qkv_BLZ)
        k_BGLK = self.position.key(k_BGLK, scene, 0)
        if isinstance(self.config.memory, NoMemory.Config):
            return q_BHLK, k_BGLK, v_BGLK, None
        if state is None:
            return q_BHLK, k_BGLK, v_BGLK, KeyValues(Growing.of(k_BGLK, 2), Growing.of(v_BGLK, 2))
        reach = self._reach(scene)
        attended = scene.length + (len(state) if reach is None else min(reach, len(state)))
        k, v = state.k.append(k_BGLK, reach), state.v.append(v_BGLK, reach)
        return q_BHLK, k.last(attended), v.last(attended), KeyValues(k, v, state.table)

    def _read_hidden(self, x_BLD: Tensor, scene: Scene, state: Hidden | None) -> tuple[Tensor, Tensor, Tensor, Hidden]:
        """Project remembered hidden states again, with the segment's own after them."""
        if state is None:
            q_BHLK, k_BGMK, v_BGMK = self._split(self.qkv(x_BLD))
            return q_BHLK, self.position.key(k_BGMK, scene, 0), v_BGMK, self._keep_hidden(x_BLD, None)
        remembered_BPD = state.x.last(self._reach(scene))
        memory = remembered_BPD.shape[1]
        both_BMD = torch.cat([remembered_BPD, x_BLD], dim=1)
        queries = self.heads * self.head_dim
        bias_q, bias_kv = (None, None) if self.qkv.bias is None else self.qkv.bias.tensor_split([queries])
        q_BHLK = split_heads(F.linear(x_BLD, self.qkv.weight[:queries], bias_q), self.heads)
        k_BMZ, v_BMZ = F.linear(both_BMD, self.qkv.weight[queries:], bias_kv).chunk(2, dim=-1)
        k_BGMK, v_BGMK = split_heads(k_BMZ, self.groups), split_heads(v_BMZ, self.groups)
        return q_BHLK, self.position.key(k_BGMK, scene, memory), v_BGMK, self._keep_hidden(x_BLD, state)

    def _keep_hidden(self, x_BLD: Tensor, state: Hidden | None) -> Hidden:
        if state is None:
            return Hidden(Growing.of(x_BLD.detach(), 1))
        return Hidden(state.x.append(x_BLD.detach(), self.config.reach))

    def freeze(self, norm: nn.Module, state: Any, scene: Scene) -> Any:
        """Hidden states turned into keys and values once, with the table of distances; for inference."""
        if not isinstance(state, Hidden):
            return state
        reach = self._reach(scene)
        x_BMD = state.x.last(reach)
        _, k_BGMK, v_BGMK = self._split(self.qkv(x_BMD))
        k_BGMK = self.position.key(k_BGMK, scene, x_BMD.shape[1])
        table = self.position.table((reach or 0) + 1)
        return KeyValues(Growing.of(k_BGMK, 2), Growing.of(v_BGMK, 2), None if table is None else Constant(table))

    def _split(self, qkv_BLZ: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        sizes = [self.heads * self.head_dim, self.groups * self.head_dim, self.groups * self.head_dim]
        q_BLZ, k_BLZ, v_BLZ = qkv_BLZ.split(sizes, dim=-1)
        return split_heads(q_BLZ, self.heads), split_heads(k_BLZ, self.groups), split_heads(v_BLZ, self.groups)
