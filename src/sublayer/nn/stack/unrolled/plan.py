"""Plan: what a pass of the loop does, apart from the numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sublayer.nn.feedforward.activation import Activation


@dataclass(frozen=True)
class NormSpec:
    """A LayerNorm, by the indices of its gain and shift among the weights; None where a matrix has them in it."""

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
    """Whether the activation is of one half, and multiplies the other."""
    keys: int = 0
    """Which keys and values an attention reads: a set of the memory's, or after them a source's."""
    sees: int | None = None
    """Earlier places it sees at most."""
    fade: int | None = None
    """(heads, distances): what a span adds to its scores at distance 1, 2, …"""
    drop: float = 0.0
    """How much is left out of what stands between its matrices: of an attention's weights, of activations."""
    drop_out: float = 0.0
    """And of what it adds to the stream. What makes up for either is in the second matrix and its bias."""


@dataclass(frozen=True)
class Plan:
    """What a pass does, apart from the numbers."""

    sublayers: Sequence[SublayerSpec]
    ends: Sequence[int]
    """x^0, x^1, … as numbers of sublayers done."""
    streams: Sequence[int]
    """For each set of keys and values, the memory vectors it is made of."""
    heads: int
    groups: int
    entry: NormSpec | None
    """Between memory vectors and their projection."""
    compose: int
    """(streams, layers): how much of each layer is in each stream."""
    project: int
    project_bias: int | None
    """(sets, D, 2·groups·head size) and its bias: keys, then values."""
    table: int | None = None
    """(distances, head size): what is added to keys at distance 1, 2, …"""
    sources: Sequence[tuple[int, int]] = ()
    """Keys and values, (B, groups, places, head size), that do not change from place to place: of cross-attentions."""
    source_mask: int | None = None
    """(B, places of the source): 0 where they may be seen, −∞ elsewhere."""

    def source(self, sublayer: SublayerSpec) -> tuple[int, int] | None:
        """Keys and values of the source that an attention reads; None if it reads the memory's."""
        memory = len(self.streams)
        return None if sublayer.activation or sublayer.keys < memory else self.sources[sublayer.keys - memory]
