"""Linformer from left to right: finished blocks are compressed, the block of the query is not."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from pydantic import model_validator
from torch import Tensor, nn

from sublayer.nn import paths
from sublayer.nn.attention import staircase
from sublayer.nn.attention.blockwise import Blockwise, Compressed, Pair, both
from sublayer.nn.attention.kernel import linformer_reference
from sublayer.nn.attention.kernel.base import Kernel, Load, View
from sublayer.nn.attention.kernel.low_rank import LowRank, Plan, Share, summed
from sublayer.nn.attention.pattern import Pattern
from sublayer.nn.attention.span import Span
from sublayer.nn.config import Count
from sublayer.nn.memory import KeyValues, Memory
from sublayer.nn.part import Slot
from sublayer.nn.scene import Scene


class LinformerCausal(Kernel):
    """softmax(q [E k_far; k_near]ᵀ/√K) [F v_far; v_near]: Linformer's E and F for each finished block of a text.

    Ours; the paper (Wang et al. 2020) has no causal form, since a slot that mixes all tokens shows the future. Here a
    text is cut in blocks of `block` tokens, from its first token on, padding left out. A query sees each block before
    its own as `rank` slots, and the tokens of its own block up to itself as they are. All blocks share E and F, rank ×
    block, so a text may be of any length.

    The state holds the slots of finished blocks and the keys and values of the unfinished one: for long texts
    block/rank times less than all keys and values.
    """

    class Config(Kernel.Config, tag="linformer_causal"):
        own_state = True
        grows = True
        rank: Count = 16
        """Slots that a block becomes."""
        block: Count = 128
        """Tokens of a block."""
        share: Share = "none"
        """As in `linformer`."""

        @model_validator(mode="after")
        def _possible(self) -> LinformerCausal.Config:
            if self.rank > self.block:
                raise ValueError(
                    f"rank={self.rank}: blocks of block={self.block} tokens have no more to compress; use a rank up to "
                    f"{self.block}, or larger blocks"
                )
            return self

        @property
        def blocks(self) -> Blockwise:
            return Blockwise(self.block, self.rank)

        @property
        def plan(self) -> Plan:
            return Plan(self.tag, self.share, (self.rank, self.block), self.block)

        def check(self, pattern: Pattern.Config, memory: Memory.Config, span: Span.Config) -> None:
            super().check(pattern, memory, span)
            if not pattern.causal:
                raise ValueError(
                    f"kernel={self.tag} reads from left to right, but pattern={pattern.tag} looks both ways; use "
                    "pattern=causal, or kernel=linformer"
                )

        def check_length(self, length: int) -> None:
            if length < self.shortest_text:
                raise ValueError(
                    f"kernel.block={self.block}: no token of a text of {length} comes after a finished block, so that "
                    f"nothing would be compressed; use a block up to {max(1, length - 1)}, or longer texts"
                )

        def params(self, slot: Slot, heads: int, groups: int, head_dim: int) -> int:
            return self.plan.params(groups)

        def shared_params(self, heads: int, groups: int, head_dim: int) -> dict[str, int]:
            return self.plan.shared_params()

        @property
        def shortest_text(self) -> int:
            """A block, and a token after it."""
            return self.block + 1

        def flops(self, load: Load) -> int:
            finished, pairs = self.blocks.pairs(load.length, load.memory)
            of_slots = load.groups * finished * self.rank * self.block
            return 2 * 2 * load.head_dim * (of_slots + load.heads * pairs)

        def state_after(self, heads: int, groups: int, head_dim: int, tokens: int) -> int:
            return 2 * groups * head_dim * self.blocks.stored(tokens)

    config: Config

    def __init__(self, config: Config, slot: Slot, heads: int, groups: int, head_dim: int) -> None:
        super().__init__(config, slot, heads, groups, head_dim)
        config.plan.give(self, slot, groups)

    weights: LowRank

    def forward(
        self, q_BHLK: Tensor, k_BGMK: Tensor, v_BGMK: Tensor, view: View, state: Compressed | None = None
    ) -> tuple[Tensor, Compressed]:
        new, scene = (k_BGMK, v_BGMK), _scene(view, state)
        return self.config.blocks.attend(q_BHLK, new, self.compress, scene, state, view.dropout)

    def reference(
        self, q_BHLK: Tensor, k_BGMK: Tensor, v_BGMK: Tensor, view: View, state: KeyValues | None = None
    ) -> tuple[Tensor, KeyValues]:
        """Its state is all keys and values, from which it makes all slots again."""
        past = [] if state is None else [(state.k.value, state.v.value)]
        k_BGMK, v_BGMK = both(lambda *xs: torch.cat(xs, dim=2), *past, (k_BGMK, v_BGMK))
        made = linformer_reference.Compression("learned", self.config.rank, self.config.block, self.weights.pair)
        given = (_scene(view, state), self.config.block, made)
        return linformer_reference.attend_causal(q_BHLK, k_BGMK, v_BGMK, *given), KeyValues.of(k_BGMK, v_BGMK)

    def compress(self, tokens: Pair) -> Pair:
        """Of each of these whole blocks, `rank` slots."""
        block = self.config.block

        def slots(x_BGTK: Tensor, weight_GRT: Tensor) -> Tensor:
            blocks_BGnTK = x_BGTK.unflatten(2, (x_BGTK.shape[2] // block, block))
            return summed(blocks_BGnTK, weight_GRT).flatten(2, 3)

        return both(slots, tokens, self.weights.pair)

    def path(self, part: nn.Module, mode: paths.Mode) -> paths.Choice:
        return paths.report(staircase.JOB, part, mode, plain="PyTorch's attention")


def _scene(view: View, state: Any) -> Scene:
    """Without a state, a segment is the beginning of a text."""
    if state is not None or not view.scene.start:
        return view.scene
    return replace(view.scene, start=0, past_i_BP=None, past_valid_BP=None, _once={})
