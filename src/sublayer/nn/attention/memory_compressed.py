"""Memory-compressed attention: blocks of earlier tokens, each made one key and one value by a strided convolution."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from sublayer.nn import paths
from sublayer.nn.attention import memory_compressed_reference as reference
from sublayer.nn.attention import staircase
from sublayer.nn.attention.blockwise import Blockwise, Compressed, Pair, both
from sublayer.nn.attention.heads import Looking, join_heads, split_heads
from sublayer.nn.attention.kernel import attend
from sublayer.nn.attention.pattern import Sight
from sublayer.nn.attention.ranks import Ranks
from sublayer.nn.config import Count
from sublayer.nn.linear import linear
from sublayer.nn.part import Slot, Work
from sublayer.nn.position.none import NoPosition
from sublayer.nn.scene import Scene
from sublayer.nn.state import Growing


class MemoryCompressed(Looking):
    """softmax(q (W_k * k)ᵀ/√K) (W_v * v), * a convolution whose kernel and stride are `stride` tokens (Liu et al. 2018,
    section 4.2.3). The paper's decoder, T-DMCA, alternates it with attention within blocks of 256 tokens: layers
    `local, compressed, local, compressed, local`.

    Looking back, a query sees every block before its own, as one key, and the tokens of its own block up to itself, as
    they are. The paper leaves open what a token sees that has no finished block before it; its authors' code adds
    the first token of the text as a key. Blocks are counted from the first token of a text, padding left out, so that
    neither padding nor the length of a text moves them. Looking both ways, a query sees every block; the last is filled
    up with zeros.

    Each head convolves its own keys and values, without a bias; the paper does not say whether heads mix.
    """

    class Config(Looking.Config, tag="memory_compressed"):
        stride: Count = 3
        """Tokens of a block, which become one key."""

        @property
        def blocks(self) -> Blockwise:
            return Blockwise(self.stride)

        def params(self, slot: Slot) -> int:
            H, G, K = self.sizes(slot.dim)
            projections = slot.dim * 2 * (H + G) * K + (((H + 2 * G) * K + slot.dim) if self.bias else 0)
            return projections + 2 * G * self.stride * K * K

        @property
        def shortest_text(self) -> int:
            """Looking back, a block and a token after it."""
            return 1 if self.both_ways else self.stride + 1

        def flops(self, slot: Slot, work: Work) -> int:
            (H, G, K), L = self.sizes(slot.dim), work.length
            blocks, pairs = self._blocks_and_pairs(L, work.memory)
            convolutions = 2 * 2 * G * blocks * self.stride * K * K
            return 2 * L * slot.dim * 2 * (H + G) * K + convolutions + 2 * 2 * H * K * pairs

        def _blocks_and_pairs(self, length: int, memory: int) -> tuple[int, int]:
            """Blocks that are compressed, and query–key pairs that are multiplied in each head."""
            if self.both_ways:
                blocks = -(-length // self.stride)
                return blocks, length * blocks
            return self.blocks.pairs(length, memory)

        def state_size(self, slot: Slot, work: Work) -> int:
            _, G, K = self.sizes(slot.dim)
            return 0 if self.both_ways else 2 * G * K * self.blocks.stored(work.memory + work.length)

    def __init__(self, config: Config, slot: Slot) -> None:
        super().__init__()
        self.config = config
        self.heads, self.groups, self.head_dim = config.sizes(slot.dim)
        self.qkv = linear(slot.dim, (self.heads + 2 * self.groups) * self.head_dim, config.bias)
        self.output = linear(self.heads * self.head_dim, slot.dim, config.bias)
        # A block's key is about as large as a token's.
        shape, deviation = (
            (self.groups, config.stride * self.head_dim, self.head_dim),
            (config.stride * self.head_dim) ** -0.5,
        )
        self.key_GZK = nn.Parameter(torch.empty(shape).normal_(std=deviation))
        self.value_GZK = nn.Parameter(torch.empty(shape).normal_(std=deviation))
        self.position = NoPosition()

    masked = None
    position_tag = "none"

    @property
    def twin(self) -> str:
        return "nn/attention/memory_compressed_reference.py"

    def path(self, mode: paths.Mode) -> paths.Choice:
        return paths.report(staircase.JOB, self, mode, plain="PyTorch's attention")

    def score_weights(self) -> dict[str, slice]:
        return {"qkv.weight": slice(0, (self.heads + self.groups) * self.head_dim), "key_GZK": slice(None)}

    def forward(
        self, x_BLD: Float[Tensor, "B L D"], scene: Scene, state: Compressed | None = None
    ) -> tuple[Float[Tensor, "B L D"], Compressed | None]:
        size = self.groups * self.head_dim
        q_BLZ, k_BLZ, v_BLZ = self.qkv(x_BLD).split([self.heads * self.head_dim, size, size], dim=-1)
        q_BHLK = split_heads(q_BLZ, self.heads)
        new = split_heads(k_BLZ, self.groups), split_heads(v_BLZ, self.groups)
        if paths.slow():
            y_BHLK, state = self._slowly(q_BHLK, new, scene, state)
        elif self.config.both_ways:
            y_BHLK = self._both_ways(q_BHLK, new, scene)
        else:
            past = (scene, state, self._dropout)
            y_BHLK, state = self.config.blocks.attend(q_BHLK, new, self._compressed, *past)
        return self.output(join_heads(y_BHLK)), state

    @property
    def _dropout(self) -> float:
        return self.config.dropout if self.training else 0.0

    def compress(
        self, x_BGTK: Float[Tensor, "B G T K"], weight_GZK: Float[Tensor, "G Z K"]
    ) -> Float[Tensor, "B G n K"]:
        """One vector for each whole block."""
        B, _, T, _ = x_BGTK.shape
        x_BGnZ = x_BGTK.unflatten(2, (T // self.config.stride, self.config.stride)).flatten(3)
        return (
            (x_BGnZ.transpose(0, 1).flatten(1, 2) @ weight_GZK)
            .unflatten(1, (B, T // self.config.stride))
            .transpose(0, 1)
        )

    def _compressed(self, tokens: Pair) -> Pair:
        return both(self.compress, tokens, (self.key_GZK, self.value_GZK))

    def _both_ways(self, q_BHLK: Tensor, new: Pair, scene: Scene) -> Tensor:
        seen, stride = Sight(), self.config.stride
        if not scene.even:
            ranks = Ranks.of(scene, stride, len(q_BHLK))
            new = both(ranks.spread, new)
            first_n = torch.arange(0, ranks.width, stride, device=q_BHLK.device)
            seen = Sight((first_n < ranks.count_B[:, None])[:, None, None])
        spare = -new[0].shape[2] % stride
        blocks = self._compressed(both(lambda x: F.pad(x, (0, 0, 0, spare)), new))
        return attend(q_BHLK, *blocks, seen, self.position, scene, dropout=self._dropout)

    def _slowly(
        self, q_BHLK: Tensor, new: Pair, scene: Scene, state: Compressed | None
    ) -> tuple[Tensor, Compressed | None]:
        past = both(lambda x: x[:, :, :0], new) if state is None else (state.k.value, state.v.value)
        weights, before = (self.key_GZK, self.value_GZK), 0 if state is None else state.blocks
        y_BHLK, stored, blocks = reference.attend_all(q_BHLK, new, weights, scene, past, before, self.config.both_ways)
        after = None if self.config.both_ways else Compressed(*both(lambda x: Growing.of(x, 2), stored), blocks)
        return y_BHLK, after
