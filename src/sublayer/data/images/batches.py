"""Orders of images, each a row of its own that begins with the start id.

| order | for | an epoch |
| --- | --- | --- |
| ImageRows | training | every image once, in an order that seed and epoch decide |
| sweep | evaluation | every image once, in order; ends |
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from jaxtyping import Int64, UInt8

from sublayer.data.batches import Batch, Batches
from sublayer.data.permutation import mix, permute


@dataclass(frozen=True)
class ImageSplit:
    name: str
    """train, valid or test."""
    levels_NT: UInt8[np.ndarray, "N T"]
    """Of all splits, an image a row; mapped from disk."""
    number_E: Int64[np.ndarray, " E"]
    """Which of them are in this split."""
    start: int
    """The id before the first pixel."""

    def __len__(self) -> int:
        """Tokens that are predicted."""
        return len(self.number_E) * self.longest

    @property
    def longest(self) -> int:
        """Tokens of an image."""
        return self.levels_NT.shape[1]

    def beginning(self, tokens: int | None) -> ImageSplit:
        """The first images, as many as have so many tokens, and at least one; None: all."""
        return self if tokens is None else replace(self, number_E=self.number_E[: max(1, tokens // self.longest)])

    def batch(self, which_B: Int64[np.ndarray, " B"]) -> Batch:
        """These images of the split."""
        levels_BT = self.levels_NT[self.number_E[which_B]].astype(np.int64)
        before_BT = np.pad(levels_BT[:, :-1], ((0, 0), (1, 0)), constant_values=self.start)
        return Batch(torch.from_numpy(before_BT), torch.from_numpy(levels_BT))


class ImageRows(Batches):
    """One image a row, shuffled again each epoch, without end. The cursor counts images: the batch size may change
    where it resumes."""

    kind = "images"

    def __init__(
        self,
        split: ImageSplit,
        batch: int,
        *,
        seed: int = 0,
        rank: int = 0,
        world: int = 1,
        cursor: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(split.number_E, batch, split.longest, rank=rank, world=world)
        self.split, self.seed, self.drawn = split, seed, 0
        if cursor is not None:
            self._check(cursor, tokens=len(split), seed=seed)
            self.drawn = int(cursor["images"])

    @property
    def epoch(self) -> float:
        """Epochs done."""
        return self.drawn / len(self.ids)

    @property
    def cursor(self) -> dict[str, Any]:
        return {"kind": self.kind, "tokens": len(self.split), "seed": self.seed, "images": self.drawn}

    def __next__(self) -> Batch:
        count = len(self.ids)
        epochs, order = np.divmod(self.drawn + self.row_B, count)
        which_B = np.empty_like(order)
        for epoch in np.unique(epochs):
            which_B[epochs == epoch] = permute(order[epochs == epoch], count, mix(self.seed, int(epoch)))
        self.drawn += self.batch
        return self.split.batch(which_B)

    def take(self, length: int) -> Batch:
        """The ends of images are left out."""
        return next(self).cut(length)


def sweep(split: ImageSplit, batch: int, *, rank: int = 0, world: int = 1) -> Iterator[Batch]:
    """Every image once. What fills up the last batch has weight 0; each of `world` processes takes its rows."""
    row_B = np.arange(rank * batch // world, (rank + 1) * batch // world)
    count = len(split.number_E)
    for start in range(0, count, batch):
        number_B = start + row_B
        found = split.batch(np.minimum(number_B, count - 1))
        there_B1 = torch.from_numpy((number_B < count)[:, None])
        yield found if there_B1.all() else replace(found, weights_BL=there_B1.expand(found.targets_BL.shape).float())
