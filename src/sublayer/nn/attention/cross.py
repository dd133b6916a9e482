"""Cross-attention: queries from the stream, keys and values from the source."""

from __future__ import annotations

import torch
from jaxtyping import Float
from pydantic import model_validator
from torch import Tensor

from sublayer.nn import paths
from sublayer.nn.attention.heads import Heads, join_heads, split_heads
from sublayer.nn.attention.kernel import Kernel, Softmax
from sublayer.nn.attention.kernel.softmax import DENSE
from sublayer.nn.linear import linear
from sublayer.nn.memory import KeyValues
from sublayer.nn.part import Slot, Work
from sublayer.nn.position.base import Position
from sublayer.nn.position.none import NoPosition
from sublayer.nn.scene import Scene


class Cross(Heads):
    """concat_h(softmax(q_h k_hᵀ/√K) v_h) W_o, keys and values of the encoder's output (Vaswani et al. 2017, 3.2.3), or
    another kernel's weights.

    The source is projected once, by the first segment; its keys and values are the part's state, or what the kernel
    makes of them. It has no positions.
    """

    class Config(Heads.Config, tag="cross"):
        added = frozenset({"kernel"})

        kernel: Kernel.Config = Softmax.Config()
        """How weights are formed from queries and the source's keys."""

        @model_validator(mode="after")
        def _possible(self) -> Cross.Config:
            if not self.kernel.crosses:
                able = [tag for tag, kind in Kernel.Config.registry.items() if kind.crosses]  # pyright: ignore[reportAttributeAccessIssue]
                raise ValueError(f"kernel={self.kernel.tag} cannot read a source; use kernel={' or '.join(able)}")
            return self

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
            return 2 * G * K * self.kernel.stored(work.source)

        def params(self, slot: Slot) -> int:
            H, G, K = self.sizes(slot.dim)
            wide = (2 * H + 2 * G) * K
            projections = slot.dim * wide + (((H + 2 * G) * K + slot.dim) if self.bias else 0)
            return projections + self.kernel.params(slot, H, G, K)

        def shared_params(self, slot: Slot) -> dict[str, int]:
            return self.kernel.shared_params(*self.sizes(slot.dim))

        def flops(self, slot: Slot, work: Work) -> int:
            H, G, K = self.sizes(slot.dim)
            read = 2 * work.source * slot.dim * 2 * G * K + self.kernel.storing_flops(G, K, work.source)
            queries = 2 * work.length * slot.dim * 2 * H * K
            pairs = work.length * self.kernel.stored(work.source)
            return queries + (0 if work.memory else read) + 2 * 2 * H * K * pairs

    def __init__(self, config: Config, slot: Slot) -> None:
        super().__init__()
        self.config = config
        self.heads, self.groups, self.head_dim = config.sizes(slot.dim)
        self.query = linear(slot.dim, self.heads * self.head_dim, config.bias)
        self.key_value = linear(slot.dim, 2 * self.groups * self.head_dim, config.bias)
        self.output = linear(self.heads * self.head_dim, slot.dim, config.bias)
        self.position = NoPosition()
        self.kernel = config.kernel.build(slot, self.heads, self.groups, self.head_dim)

    def forward(
        self, x_BLD: Float[Tensor, "B L D"], scene: Scene, state: KeyValues | None = None
    ) -> tuple[Float[Tensor, "B L D"], KeyValues]:
        state = self.read(scene) if state is None else state
        q_BHLK, dropout = split_heads(self.query(x_BLD), self.heads), self.config.dropout if self.training else 0.0
        y_BHLK = self.kernel.across(q_BHLK, state, source_scene(scene), dropout)
        return self.output(join_heads(y_BHLK)), state

    masked = None
    position_tag = "none"

    @property
    def twin(self) -> str | None:
        return self.kernel.twin

    def path(self, mode: paths.Mode) -> paths.Choice:
        return paths.report(DENSE, self, mode, plain="PyTorch's attention")

    def read(self, scene: Scene) -> KeyValues:
        """Keys and values of the source, as the kernel stores them."""
        if scene.source_BSD is None:
            raise ValueError("cross-attention needs a source: call state = model.start(source_ids) first")
        k_BSZ, v_BSZ = self.key_value(scene.source_BSD).chunk(2, dim=-1)
        return self.kernel.store(split_heads(k_BSZ, self.groups), split_heads(v_BSZ, self.groups), source_scene(scene))


def source_scene(scene: Scene) -> Scene:
    """The scene of the source's tokens; the same for all layers."""
    source_BSD = scene.source_BSD
    assert source_BSD is not None

    def make() -> Scene:
        return Scene(torch.arange(source_BSD.shape[1], device=source_BSD.device)[None], valid_BL=scene.source_valid_BS)

    return scene.once_per_pass("source", make)
