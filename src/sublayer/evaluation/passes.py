"""Passes: which stretches of a text a model reads at once, and which of their targets are scored.

Every target is scored once. What stands before it in its row is its context, and does not depend on how many rows are
read at once; only lanes, which carry state, divide the text among their rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Int, Integer
from torch import Tensor

from sublayer.data import Sweep

Ids = Integer[np.ndarray, " N"]


@dataclass(frozen=True)
class Rows:
    inputs_BL: Int[Tensor, "B L"]
    targets_BS: Int[Tensor, "B S"]
    """What follows the last S tokens of each row; −100 where nothing does."""
    first_B: Int[np.ndarray, " B"]
    """Which token of the text the first target of each row is."""
    fresh: bool = True
    """Whether state carried from the rows before must be dropped."""

    @property
    def count(self) -> int:
        return int((self.targets_BS != -100).sum())


def windows(ids_N: Ids, length: int, stride: int, batch: int) -> Iterator[Rows]:
    """Windows of `length`, each `stride` further on: the first is scored whole, the others in their last `stride`.

    With stride = length they are segments that do not overlap. The last one is as short as what is left, so that its
    targets, too, stand where they would in any other.
    """
    targets = len(ids_N) - 1
    length = min(length, targets)
    stride = min(stride, length)
    whole = (targets - length) // stride + 1
    first = 0
    if stride < length:
        yield _take(ids_N, np.zeros(1, np.int64), length, length)
        first = 1
    for n in range(first, whole, batch):
        yield _take(ids_N, stride * np.arange(n, min(n + batch, whole)), length, stride)
    start = whole * stride
    left = targets - (start - stride + length)
    if left:
        yield _take(ids_N, np.array([start]), targets - start, left)


def lanes(ids_N: Ids, length: int, batch: int) -> Iterator[Rows]:
    """The text in `batch` lanes, segment after segment; with one lane, the text from its beginning to its end."""
    sweep = Sweep(ids_N, batch, length)
    first_B = 1 + sweep.lane * np.arange(batch)
    for rows in sweep:
        targets_BL = rows.targets_BL
        if rows.weights_BL is not None:
            targets_BL = targets_BL.masked_fill(rows.weights_BL == 0, -100)
        yield Rows(rows.inputs_BL, targets_BL, first_B, rows.fresh)
        first_B = first_B + targets_BL.shape[1]


def _take(ids_N: Ids, start_B: Int[np.ndarray, " B"], length: int, scored: int) -> Rows:
    row_BL = np.lib.stride_tricks.sliding_window_view(ids_N, length + 1)[start_B].astype(np.int64)
    x_BL = torch.from_numpy(row_BL)
    return Rows(x_BL[:, :-1], x_BL[:, -scored:], start_B + length - scored + 1)
