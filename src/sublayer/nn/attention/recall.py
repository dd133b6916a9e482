"""Recall: attention to a memory that the stack stores. It forms the queries only, and no token sees itself."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

from sublayer.nn.attention.heads import Heads, join_heads, split_heads
from sublayer.nn.attention.kernel import attend
from sublayer.nn.attention.multihead import MultiHead
from sublayer.nn.attention.pattern import Sight, lower, sight
from sublayer.nn.limits import least
from sublayer.nn.linear import linear
from sublayer.nn.memory import KeyValues
from sublayer.nn.part import Slot, Work
from sublayer.nn.position.base import distances
from sublayer.nn.scene import Scene


class Recall(Heads):
    """concat_h(softmax(q_h k_hᵀ/√K) v_h) W_o for each token, on keys and values of the tokens before it.

    The stack that stores them gives them as the state. It is built from a MultiHead's config; with `own`, it has the
    projection of memory vectors to keys and values, which else all attentions of the stack share.
    """

    def __init__(self, config: MultiHead.Config, slot: Slot, *, own: bool) -> None:
        super().__init__()
        self.config = config
        self.heads, self.groups, self.head_dim = config.sizes(slot.dim)
        self.query = linear(slot.dim, self.heads * self.head_dim, config.bias)
        self.key_value = linear(slot.dim, 2 * self.groups * self.head_dim, config.bias) if own else None
        self.output = linear(self.heads * self.head_dim, slot.dim, config.bias)
        self.position = config.position(slot).build_layer(slot.dim, self.heads, self.head_dim, slot.shared)
        self.span = config.span.build(self.heads)

    @property
    def twin(self) -> str:
        return "the plain loop of nn/stack/feedback.py"

    def sees(self, scene: Scene) -> int | None:
        """How many earlier tokens any head sees now; None for all there are."""
        return self.config.sees if self.span is None else least(self.config.sees, self.span.sees(scene))

    def forward(
        self, x_BLD: Float[Tensor, "B L D"], scene: Scene, state: KeyValues | None = None
    ) -> tuple[Float[Tensor, "B L D"], KeyValues | None]:
        """One token, on the keys and values before it; or several, whose own keys and values are the last (a sweep)."""
        if state is None or not len(state):
            nothing_B1Z = x_BLD.new_zeros(*x_BLD.shape[:2], self.heads * self.head_dim)
            return self.output(nothing_B1Z), state
        if x_BLD.shape[1] > 1:
            return self._sweep(x_BLD, scene, state), state
        q_BH1K = split_heads(self.query(x_BLD), self.heads)
        sees = self.sees(scene)
        y_BH1K = self._attend(q_BH1K, state.k.last(sees), state.v.last(sees), scene)
        return self.output(join_heads(y_BH1K)), state

    def _sweep(self, x_BLD: Tensor, scene: Scene, state: KeyValues) -> Tensor:
        """Several tokens at once, on keys and values of which the last are a guess at their own."""
        sees, length = self.sees(scene), x_BLD.shape[1]
        k_BGMK, v_BGMK = (one.last(None if sees is None else sees + length) for one in (state.k, state.v))
        memory = k_BGMK.shape[2] - length
        seen_BHLM = sight(scene, self.config.pattern, self.config.memory, memory, self.heads).mask_BHLM
        before_11LM = lower(scene, memory).tril(memory - 1)
        seen = Sight(before_11LM if seen_BHLM is None else seen_BHLM & before_11LM)
        q_BHLK = split_heads(self.query(x_BLD), self.heads)
        return self.output(join_heads(attend(q_BHLK, k_BGMK, v_BGMK, seen, self.position, scene, span=self.span)))

    def _attend(self, q_BH1K: Tensor, k_BGMK: Tensor, v_BGMK: Tensor, scene: Scene) -> Tensor:
        """A position gives M + 1 columns, the last for the token itself, which is dropped: no token sees itself."""
        memory, scale = k_BGMK.shape[2], self.head_dim**-0.5
        bias_BH1N = self.position.bias(q_BH1K, scene, memory, scale, None)
        # Queries of one group are one matrix: no key is repeated.
        q_BGHK = self.position.query(q_BH1K, scene).unflatten(1, (self.groups, -1)).flatten(2, 3)
        scores_BH1M = (q_BGHK * scale @ k_BGMK.transpose(-1, -2)).flatten(1, 2)[:, :, None]
        scores_BH1M = scores_BH1M if bias_BH1N is None else scores_BH1M + bias_BH1N[..., :-1]
        if self.position.acts_on_weights:
            scores_BH1M = self.position.weigh(F.pad(scores_BH1M, (0, 1)), scene, memory)[..., :-1]
        if self.span is not None:
            scores_BH1M = scores_BH1M + self.span.fade(distances(scene, memory)[..., :-1], scene, scores_BH1M.dtype)
        seen_BH1N = sight(scene, self.config.pattern, self.config.memory, memory, self.heads).mask_BHLM
        scores_BH1M = scores_BH1M if seen_BH1N is None else scores_BH1M.masked_fill(~seen_BH1N[..., :-1], -torch.inf)
        weights_BH1M = scores_BH1M.softmax(-1)
        if seen_BH1N is not None:  # a row whose memory is all padding sees nothing, nor does a head without its keys
            weights_BH1M = weights_BH1M.masked_fill(scores_BH1M.isneginf().all(-1, keepdim=True), 0)
        weights_BH1M = F.dropout(weights_BH1M, self.config.dropout, self.training)
        y_BGHK = weights_BH1M[:, :, 0].unflatten(1, (self.groups, -1)) @ v_BGMK
        extra_BH1K = None
        if self.position.acts_on_weights:
            extra_BH1K = self.position.value(F.pad(weights_BH1M, (0, 1)), scene, memory)
        y_BH1K = y_BGHK.flatten(1, 2)[:, :, None]
        return y_BH1K if extra_BH1K is None else y_BH1K + extra_BH1K


def recall_params(config: MultiHead.Config, slot: Slot, *, own: bool) -> int:
    """Of one such attention, counted without building."""
    return config.params(slot) - (0 if own else key_value_params(config, slot.dim))


def key_value_params(config: MultiHead.Config, dim: int) -> int:
    """Of one projection of memory vectors."""
    _, G, K = config.sizes(dim)
    return (dim + config.bias) * 2 * G * K


def recall_flops(config: MultiHead.Config, slot: Slot, work: Work) -> int:
    """Queries, scores, sums and the output, token after token; keys and values are counted where they are projected."""
    H, _, K = config.sizes(slot.dim)
    position, total = config.position(slot), 0
    memory = least(work.memory, config.reach, config.span.begins) or 0
    sees = least(config.sees, config.span.begins)
    for there in range(memory, memory + work.length):
        attended = there if sees is None else min(there, sees)
        total += 2 * slot.dim * H * K * (2 if there else 1)
        if attended:
            total += 2 * 2 * H * K * attended + position.layer_flops(H, K, slot.dim, 1, attended + 1, frozen=False)
    return total
