"""Plan: the structure of a pass of the loop, without its tensors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sublayer.nn.feedforward.activation import Activation


@dataclass(frozen=True)
class NormSpec:
    """A LayerNorm, by the indices of its gain and shift among the weights; None where the next matrix contains them."""

    eps: float
    gain: int | None = None
    shift: int | None = None


@dataclass(frozen=True)
class SublayerSpec:
    """One sublayer by the indices of its weights: two matrices, stored as (in, out), and their biases."""

    enter: int
    enter_bias: int | None
    leave: int
    leave_bias: int | None
    before: NormSpec | None = None
    after: NormSpec | None = None
    activation: Activation | None = None
    """Of a feed-forward; None for an attention."""
    gated: bool = False
    """Whether act(one half) multiplies the other half (GLU)."""
    keys: int = 0
    """Which keys and values an attention reads: a set of the memory's, or after them a source's."""
    sees: int | None = None
    """Number of earlier tokens it sees at most; None for all."""
    fade: int | None = None
    """(heads, distances): what a span adds to its scores at distance 1, 2, …"""
    drop: float = 0.0
    """Dropout rate between its matrices: on an attention's weights, or on activations."""
    drop_out: float = 0.0
    """Dropout rate on its output. The factors 1/(1 − p) of both are in the second matrix and its bias."""


@dataclass(frozen=True)
class Plan:
    """The structure of a pass; tensors are named by their index among the weights."""

    sublayers: Sequence[SublayerSpec]
    ends: Sequence[int]
    """For each layer output x^0, x^1, …, the number of sublayers before it."""
    streams: Sequence[int]
    """For each set of keys and values, the stream of memory vectors it is projected from."""
    heads: int
    groups: int
    entry: NormSpec | None
    """Between memory vectors and their projection."""
    compose: int
    """(streams, layers): weight of each layer in each stream."""
    project: int
    project_bias: int | None
    """(sets, D, 2·groups·head size) and its bias: keys, then values."""
    table: int | None = None
    """(distances, head size): what is added to keys at distance 1, 2, …"""
    sources: Sequence[tuple[int, int]] = ()
    """Keys and values of cross-attentions, (B, groups, source tokens, head size), the same for all tokens."""
    source_mask: int | None = None
    """(B, source tokens): 0 where they may be seen, −∞ elsewhere."""

    def source(self, sublayer: SublayerSpec) -> tuple[int, int] | None:
        """Keys and values of the source that an attention reads; None if it reads the memory's."""
        memory = len(self.streams)
        return None if sublayer.activation or sublayer.keys < memory else self.sources[sublayer.keys - memory]
