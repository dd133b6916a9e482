"""Lists of ranges: which slots of its cache each head of each row reads at the next token, for patterns with gaps."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import torch
from jaxtyping import Int
from torch import Tensor

from sublayer.generation.native.form import StepSublayer
from sublayer.nn.attention.one_query import kinds_of
from sublayer.nn.attention.pattern import Pattern
from sublayer.nn.attention.ranges import shifted, since, slots


@dataclass(frozen=True)
class Listed:
    """What attentions have in common that follow the same lists: their caches hold the same tokens."""

    pattern: Pattern.Config
    heads: int
    reach: int | None
    """How far back they see; None for all."""
    biased: bool
    """Whether their position asks how far away each key is."""


class Lists:
    """The lists of some attentions, written anew for each token."""

    def __init__(self, listed: Listed, sublayers: Sequence[StepSublayer]) -> None:
        self._listed, self._sublayers = listed, sublayers
        self._kinds = kinds_of(listed.pattern, listed.heads)
        self._of_head = [self._kinds.index(kind) for kind in listed.pattern.by_head(listed.heads)]
        self._far: Tensor | None = None
        self._runs: list[tuple[range, int]] = []

    def start_rows(self, first_B: Int[Tensor, " B"]) -> None:
        """The first real token of each row: rows that begin together share their lists."""
        self._firsts, which_B = first_B.unique(return_inverse=True)
        head_H = torch.tensor(self._of_head, device="cpu")
        self._lists_BH = (which_B[:, None] * len(self._kinds) + head_H).contiguous()

    def write(self, start: int, oldest: int, far_F: Int[Tensor, " F"] | None) -> None:
        """For token `start`, in a cache that holds the tokens far_F, and all from `oldest` on."""
        if far_F is not self._far:
            self._far, self._runs = far_F, [] if far_F is None else list(_runs(far_F))
        ranges, begins = array("q"), array("q", [0])
        for first in self._firsts.tolist():
            for kind in self._kinds:
                for one in self._ranges(kind, start, first, oldest):
                    ranges.extend(one)
                begins.append(len(ranges) // 5)
        self._written = ranges, begins
        for sublayer in self._sublayers:
            sublayer.ranges, sublayer.begins = ranges.buffer_info()[0], begins.buffer_info()[0]
            sublayer.lists = self._lists_BH.data_ptr()

    def _ranges(self, kind: Pattern.Config, start: int, first: int, oldest: int) -> Iterator[tuple[int, ...]]:
        """Slot, count, step, distance and its step, as step.c has them."""
        tokens = kind.ranges(start - first)
        assert tokens is not None
        reach, count = self._listed.reach, 0 if self._far is None else len(self._far)
        seen = tokens if reach is None else [since(one, start - first - reach) for one in tokens]
        for slot in slots([shifted(one, first) for one in seen], oldest, self._far):
            if slot.start >= count:
                yield slot.start, len(slot), slot.step, start - (slot.start - count + oldest), slot.step
            elif not self._listed.biased:
                yield slot.start, len(slot), slot.step, 0, 0
            else:
                for run, token in self._runs:
                    if both := range(max(run.start, slot.start), min(run.stop, slot.stop)):
                        yield both.start, len(both), 1, start - token - (both.start - run.start), 1


def _runs(far_F: Tensor) -> Iterator[tuple[range, int]]:
    """Slots that hold one token after the other, and the first of these."""
    edges = [0, *((far_F.diff() != 1).nonzero().flatten() + 1).tolist(), len(far_F)]
    for begin, end in pairwise(edges):
        if begin < end:
            yield range(begin, end), int(far_F[begin])
