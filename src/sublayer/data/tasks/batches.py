"""Orders of a task's episodes.

| order | for | an epoch |
| --- | --- | --- |
| Episodes | training a model without state | every episode once, a row each, in an order that seed and epoch decide |
| Chains | training a model that carries state | B lanes of episodes one after another, segment after segment |
| exam | evaluation | every episode once, in rows or in lanes; ends |

Cursors are as those of texts. Rows are padded on the right; tokens that ask for no answer, and padding, have weight 0.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from math import ceil
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Int, Int64
from torch import Tensor

from sublayer.data.batches import Batch, Batches
from sublayer.data.permutation import mix, permute
from sublayer.data.tasks.examples import Examples


class Episodes(Batches):
    """One episode a row, or its beginning where it is longer than `length`; shuffled again each epoch, without end.

    The cursor counts episodes.
    """

    kind = "episodes"

    def __init__(
        self,
        examples: Examples,
        batch: int,
        *,
        seed: int = 0,
        rank: int = 0,
        world: int = 1,
        cursor: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(examples.inputs_N, batch, examples.longest, rank=rank, world=world)
        self.examples, self.seed, self.drawn = examples, seed, 0
        if cursor is not None:
            self._check(cursor, seed=seed)
            self.drawn = int(cursor["episodes"])

    @property
    def epoch(self) -> float:
        """Epochs done."""
        return self.drawn / self.examples.episodes

    @property
    def cursor(self) -> dict[str, Any]:
        return {**super().cursor, "seed": self.seed, "episodes": self.drawn}

    def seek(self, epoch: float) -> None:
        self.drawn = round(epoch * self.examples.episodes)

    def __next__(self) -> Batch:
        epochs, numbers = np.divmod(self.drawn + np.arange(self.batch), self.examples.episodes)
        episode_B = np.empty_like(numbers)
        for epoch in np.unique(epochs):
            key = mix(self.seed, int(epoch))
            episode_B[epochs == epoch] = permute(numbers[epochs == epoch], self.examples.episodes, key)
        self.drawn += self.batch
        return _rows(self.examples, episode_B, self.row_B, most=self.length)


class Chains(Batches):
    """Episodes one after another in B lanes of equal length: row b of a batch goes on where row b of the last ended.

    Every lane begins with an episode, and so does every pass. What does not fill a segment at the end of a lane is left
    out. The cursor counts tokens: the length may change where it resumes.
    """

    kind = "chains"
    carries = True

    def __init__(
        self,
        examples: Examples,
        batch: int,
        length: int,
        *,
        seed: int = 0,
        rank: int = 0,
        world: int = 1,
        cursor: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(examples.inputs_N, batch, length, rank=rank, world=world)
        self.examples, self.passes, self.position = examples, 0, 0
        self.start_B, stop_B = _lanes(examples, batch)
        self.lane = int((stop_B - self.start_B).min())
        if self.lane < length:
            raise ValueError(
                f"{examples.name}: {examples.episodes:,} episodes are too few for {batch} lanes with one segment of "
                f"{length:,}; use a smaller train.batch or train.length, or more data.episodes"
            )
        if cursor is not None:
            self._check(cursor, batch=batch)
            self.passes, self.position = int(cursor["passes"]), int(cursor["position"])

    @property
    def epoch(self) -> float:
        """Passes done."""
        return self.passes + self.position / self.lane

    @property
    def cursor(self) -> dict[str, Any]:
        return {**super().cursor, "batch": self.batch, "passes": self.passes, "position": self.position}

    def seek(self, epoch: float) -> None:
        """From the next pass on: only there do all lanes begin with an episode."""
        self.passes, self.position = ceil(epoch), 0

    def __next__(self) -> Batch:
        if self.position + self.length > self.lane:
            self.passes, self.position = self.passes + 1, 0
        index_BL = self.start_B[:, None] + self.position + np.arange(self.length)
        fresh, self.position = self.position == 0, self.position + self.length
        asked_B = (self.examples.answers_N[index_BL] >= 0).sum(1)
        return _take(self.examples, index_BL[self.row_B], fresh=fresh, share=_share(asked_B, self.row_B))


def exam(examples: Examples, batch: int, length: int, *, carry: bool, rank: int = 0, world: int = 1) -> Iterator[Batch]:
    """Every episode once, a row each, or in lanes of segments (carry); batches have the episode of each token.

    What fills up rows and lanes has weight 0. Each of `world` processes takes its rows of as many batches.
    """
    row_B = np.arange(rank * batch // world, (rank + 1) * batch // world)
    if carry:
        yield from _segments(examples, batch, length, row_B)
        return
    for start in range(0, examples.episodes, batch):
        number_B = start + np.arange(batch)
        episode_B = np.minimum(number_B, examples.episodes - 1)
        found = _rows(examples, episode_B, row_B, number_B < examples.episodes)
        yield replace(found, episode_BL=torch.from_numpy(episode_B[row_B, None]).expand(found.inputs_BL.shape))


def _segments(examples: Examples, batch: int, length: int, row_B: np.ndarray) -> Iterator[Batch]:
    start_B, stop_B = _lanes(examples, batch)
    lane = int((stop_B - start_B).max())
    for position in range(0, lane, length):
        index_BL = start_B[row_B, None] + np.arange(position, min(position + length, lane))
        there_BL = index_BL < stop_B[row_B, None]
        index_BL = np.minimum(index_BL, len(examples) - 1)
        episode_BL = np.searchsorted(examples.start_E, index_BL, side="right") - 1
        fields = {"fresh": position == 0, "episode_BL": torch.from_numpy(episode_BL)}
        yield _take(examples, index_BL, there_BL, **fields)


def _lanes(examples: Examples, batch: int) -> tuple[Int64[np.ndarray, " B"], Int64[np.ndarray, " B"]]:
    """First and last index of each lane; lanes have the same number of episodes, or one more."""
    border_B = examples.start_E[examples.episodes * np.arange(batch + 1) // batch]
    return border_B[:-1], border_B[1:]


def _rows(
    examples: Examples,
    episode_B: np.ndarray,
    row_B: np.ndarray,
    counts_B: np.ndarray | None = None,
    most: int | None = None,
) -> Batch:
    """Rows of these episodes for one process; as long as the longest of all, so that every process has one shape."""
    length = min(int(examples.lengths[episode_B].max()), most or examples.longest)
    start_B1, valid_BL = examples.start_E[episode_B, None], np.arange(length) < examples.lengths[episode_B, None]
    index_BL = np.where(valid_BL, start_B1 + np.arange(length), start_B1)
    asked_B = ((examples.answers_N[index_BL] >= 0) & valid_BL).sum(1)
    share = _share(asked_B, row_B) if counts_B is None else 1.0
    index_BL, valid_BL = index_BL[row_B], valid_BL[row_B]
    there_BL = valid_BL if counts_B is None else valid_BL & counts_B[row_B, None]
    valid = None if valid_BL.all() else torch.from_numpy(valid_BL)
    return _take(examples, index_BL, there_BL, valid_BL=valid, share=share)


def _take(
    examples: Examples,
    index_BL: Int64[np.ndarray, "B L"],
    there_BL: Bool[np.ndarray, "B L"] | None = None,
    **fields: Any,
) -> Batch:
    """The tokens at these indices; those outside `there_BL` have weight 0."""
    answers_BL = examples.answers_N[index_BL]
    weights_BL = (answers_BL >= 0) if there_BL is None else (answers_BL >= 0) & there_BL
    inputs_BL, targets_BL = (_tensor(ids_BL) for ids_BL in (examples.inputs_N[index_BL], answers_BL.clip(0)))
    return Batch(inputs_BL, targets_BL, torch.from_numpy(weights_BL.astype(np.float32)), **fields)


def _tensor(ids_BL: np.ndarray) -> Int[Tensor, "B L"]:
    return torch.from_numpy(ids_BL.astype(np.int64))


def _share(asked_B: np.ndarray, row_B: np.ndarray) -> float:
    """The weight of the mean over these rows, such that the mean over processes is that over all rows."""
    total = int(asked_B.sum())
    return float(asked_B[row_B].sum() * (len(asked_B) / len(row_B)) / total) if total else 0.0
