"""Cross-attention: queries from the stream, keys and values from the source."""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor

from sublayer.nn import paths
from sublayer.nn.attention.heads import Heads, join_heads, split_heads
from sublayer.nn.attention.kernel.softmax import DENSE, attend
from sublayer.nn.attention.pattern import Sight
from sublayer.nn.linear import linear
from sublayer.nn.memory import KeyValues
from sublayer.nn.part import Slot, Work
from sublayer.nn.position.base import Position
from sublayer.nn.position.none import NoPosition
from sublayer.nn.scene import Scene
from sublayer.nn.state import Growing


class Cross(Heads):
    """concat_h(softmax(q_h k_hᵀ/√K) v_h) W_o, keys and values of the encoder's output (Vaswani et al. 2017, 3.2.3).

    The source is projected once, by the first segment; its keys and values are the part's state. It has no positions.
    """

    class Config(Heads.Config, tag="cross"):
        @property
        def needs_source(self) -> bool:
            return True

        @property
        def both_ways(self) -> bool:
            return True

        @property
        def reach(self) -> int:
            return 0

        def honours(self, position: Position.Config) -> bool:
            """Positions are the stream's; the source brings its own."""
            return True

        def state_size(self, slot: Slot, work: Work) -> int:
            _, G, K = self.sizes(slot.dim)
            return 2 * G * K * work.source

        def params(self, slot: Slot) -> int:
            H, G, K = self.sizes(slot.dim)
            wide = (2 * H + 2 * G) * K
            return slot.dim * wide + (((H + 2 * G) * K + slot.dim) if self.bias else 0)

        def flops(self, slot: Slot, work: Work) -> int:
            H, G, K = self.sizes(slot.dim)
            source = 0 if work.memory else 2 * work.source * slot.dim * 2 * G * K
            return 2 * work.length * slot.dim * 2 * H * K + source + 2 * 2 * H * K * work.length * work.source

    def __init__(self, config: Config, slot: Slot) -> None:
        super().__init__()
        self.config = config
        self.heads, self.groups, self.head_dim = config.sizes(slot.dim)
        self.query = linear(slot.dim, self.heads * self.head_dim, config.bias)
        self.key_value = linear(slot.dim, 2 * self.groups * self.head_dim, config.bias)
        self.output = linear(self.heads * self.head_dim, slot.dim, config.bias)
        self.position = NoPosition()

    def forward(
        self, x_BLD: Float[Tensor, "B L D"], scene: Scene, state: KeyValues | None = None
    ) -> tuple[Float[Tensor, "B L D"], KeyValues]:
        state = self.read(scene) if state is None else state
        valid_BS = scene.source_valid_BS
        seen = Sight(None if valid_BS is None else valid_BS[:, None, None, :])
        q_BHLK = split_heads(self.query(x_BLD), self.heads)
        dropout = self.config.dropout if self.training else 0.0
        y_BHLK = attend(q_BHLK, state.k.value, state.v.value, seen, self.position, scene, dropout=dropout)
        return self.output(join_heads(y_BHLK)), state

    masked = None
    position_tag = "none"

    @property
    def twin(self) -> str:
        return "nn/attention/reference.py"

    def path(self, mode: paths.Mode) -> paths.Choice:
        return paths.report(DENSE, self, mode, plain="PyTorch's attention")

    def read(self, scene: Scene) -> KeyValues:
        """Keys and values of the source."""
        if scene.source_BSD is None:
            raise ValueError("cross-attention needs a source: call state = model.start(source_ids) first")
        k_BSZ, v_BSZ = self.key_value(scene.source_BSD).chunk(2, dim=-1)
        return KeyValues(Growing.of(split_heads(k_BSZ, self.groups), 2), Growing.of(split_heads(v_BSZ, self.groups), 2))
