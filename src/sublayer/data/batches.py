"""Batches: rows of tokens, each with the tokens that follow them as targets.

| order | for | an epoch |
| --- | --- | --- |
| Windows | training a model without state | every window once, in an order that seed and epoch decide |
| Lanes | training a model that carries state | B lanes side by side, segment after segment |
| Sweep | evaluation | every token once, in order; ends |

A cursor is plain JSON. `Windows(…, cursor=cursor)` goes on exactly where another stopped, on any number of processes:
each of `world` takes its rows of the same global batch.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from sublayer.data.permutation import mix, permute
from sublayer.data.tokens import Tokens

AHEAD = 64
"""Number of batches whose starts are drawn at once, within about an epoch."""


@dataclass(frozen=True)
class Batch:
    inputs_BL: Int[Tensor, "B L"]
    targets_BL: Int[Tensor, "B L"]
    weights_BL: Float[Tensor, "B L"] | None = None
    """Weight of each target; None if all are equal."""
    fresh: bool = True
    """Whether state carried from the batch before must be dropped: these rows do not continue it."""
    valid_BL: Bool[Tensor, "B L"] | None = None
    """False on padding; None if there is none."""
    share: float = 1.0
    """What the mean over these rows counts in the mean over all processes; 0 if nothing in them counts."""
    episode_BL: Int[Tensor, "B L"] | None = None
    """Number of the episode that each token belongs to, in a sweep over a task."""

    def to(self, device: torch.device | str) -> Batch:
        held = {name: value for name, value in vars(self).items() if isinstance(value, Tensor)}
        return replace(self, **{name: value.to(device) for name, value in held.items()})

    def cut(self, length: int) -> Batch:
        """The beginnings of its rows."""
        held = {name: value for name, value in vars(self).items() if isinstance(value, Tensor)}
        return replace(self, **{name: value[:, :length] for name, value in held.items()})


class Batches(Iterator[Batch]):
    """Abstract: a kind chooses which tokens come next, and what its cursor holds."""

    kind: ClassVar[str]
    carries: ClassVar[bool] = False
    """Whether rows go on where those of the batch before ended."""

    def __init__(
        self,
        tokens: Tokens | np.ndarray,
        batch: int,
        length: int,
        *,
        rank: int = 0,
        world: int = 1,
    ) -> None:
        self.name, self.ids = (tokens.name, tokens.ids) if isinstance(tokens, Tokens) else ("the text", tokens)
        self.batch, self.length, self.longest = batch, length, length
        if batch < 1 or length < 1:
            raise ValueError(f"batch={batch}, length={length}: both must be at least 1")
        if batch % world:
            raise ValueError(f"batch={batch} cannot be shared evenly by {world} processes; use a multiple of {world}")
        assert 0 <= rank < world, f"rank {rank} of {world}"
        self.row_B = np.arange(rank * batch // world, (rank + 1) * batch // world)

    @property
    def targets(self) -> int:
        """How many tokens have one before them."""
        return max(0, len(self.ids) - 1)

    @property
    def cursor(self) -> dict[str, Any]:
        """The position in the data, as plain JSON."""
        return {"kind": self.kind, "tokens": len(self.ids)}

    def __iter__(self) -> Self:
        return self

    @property
    def epoch(self) -> float:
        """Epochs done."""
        raise NotImplementedError

    def seek(self, epoch: float) -> None:
        """Begin where batches of another size stand that have done so many epochs, as nearly as it can be."""
        raise NotImplementedError

    def take(self, length: int) -> Batch:
        """The next batch, with rows of `length` tokens; the batch after it continues from there."""
        self.length = length
        return next(self)

    def _check(self, cursor: Mapping[str, Any], **expected: Any) -> None:
        """Refuse a cursor of other batches."""
        for name, here in {"kind": self.kind, "tokens": len(self.ids), **expected}.items():
            if cursor.get(name) != here:
                raise ValueError(
                    f"cursor: belongs to batches with {name}={cursor.get(name)}, here it is {here}; use the same data "
                    "and settings, or start without a cursor"
                )

    def _take(self, start_B: np.ndarray, length: int) -> tuple[Tensor, Tensor]:
        """Inputs and targets of rows that begin at these tokens."""
        row_BL = np.lib.stride_tricks.sliding_window_view(self.ids, length + 1)[start_B].astype(np.int64)
        x_BL = torch.from_numpy(row_BL)
        return x_BL[:, :-1].contiguous(), x_BL[:, 1:].contiguous()


class Windows(Batches):
    """Windows that do not overlap, shuffled anew each epoch from an offset drawn anew; goes on for ever.

    A batch may end one epoch and begin the next, so that all have the same shape and no window is left out. The cursor
    counts windows: the batch size may change where it resumes.
    """

    kind = "windows"

    def __init__(
        self,
        tokens: Tokens | np.ndarray,
        batch: int,
        length: int,
        *,
        seed: int = 0,
        rank: int = 0,
        world: int = 1,
        cursor: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(tokens, batch, length, rank=rank, world=world)
        self.seed, self.drawn = seed, 0
        self._ahead: Iterator[np.ndarray] = iter(())
        if self.targets < length:
            raise ValueError(
                f"{self.name}: {len(self.ids):,} tokens are too few for one window of {length:,} and its last target; "
                f"use length={max(1, self.targets)} or less, or more text"
            )
        # so many fit after any offset below the length; where the text is short, the offset is smaller
        self.windows = max(1, (self.targets - length + 1) // length)
        if cursor is not None:
            self._check(cursor, length=length, seed=seed)
            self.drawn = int(cursor["windows"])

    @property
    def epoch(self) -> float:
        """Epochs done."""
        return self.drawn / self.windows

    @property
    def cursor(self) -> dict[str, Any]:
        return {**super().cursor, "length": self.length, "seed": self.seed, "windows": self.drawn}

    def seek(self, epoch: float) -> None:
        self.drawn = round(epoch * self.windows)

    def __next__(self) -> Batch:
        start_B = next(self._ahead, None)
        if start_B is None:
            self._ahead = iter(self._draw(min(AHEAD, 1 + self.windows // self.batch)))
            start_B = next(self._ahead)
        self.drawn += self.batch
        return Batch(*self._take(start_B, self.length))

    def take(self, length: int) -> Batch:
        """The ends of rows are left out: where windows begin follows from the full length."""
        return next(self).cut(length)

    def _draw(self, batches: int) -> np.ndarray:
        """Where the windows of the next batches begin: drawing for many takes hardly longer than for one."""
        number = self.drawn + self.batch * np.arange(batches)[:, None] + self.row_B
        epochs, order = np.divmod(number, self.windows)
        starts = np.empty_like(order)
        for epoch in np.unique(epochs):
            starts[epochs == epoch] = self.starts(int(epoch), order[epochs == epoch])
        return starts

    def starts(self, epoch: int, order: np.ndarray) -> np.ndarray:
        """First tokens of the windows with these numbers in an epoch's order."""
        room = min(self.length, self.targets - self.windows * self.length + 1)
        offset = mix(self.seed, epoch, 0) % room
        return offset + self.length * permute(order, self.windows, mix(self.seed, epoch, 1))


class Lanes(Batches):
    """The text in B lanes of equal length, read side by side: row b of a batch goes on where row b of the last ended.

    At the end of the lanes a new pass begins, `fresh`, a few tokens further on or back, since what does not fill a
    segment at the end of a lane is left out. The cursor counts tokens: the length may change where it resumes.
    """

    kind = "lanes"
    carries = True

    def __init__(
        self,
        tokens: Tokens | np.ndarray,
        batch: int,
        length: int,
        *,
        seed: int = 0,
        rank: int = 0,
        world: int = 1,
        cursor: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(tokens, batch, length, rank=rank, world=world)
        self.seed, self.passes, self.position = seed, 0, None
        self.lane = self.targets // batch
        if self.lane < length:
            raise ValueError(
                f"{self.name}: {len(self.ids):,} tokens are too few for {batch} lanes with one segment of {length:,}; "
                f"use batch={max(1, self.targets // length)} or length={max(1, self.lane)}, or more text"
            )
        if cursor is not None:
            self._check(cursor, batch=batch, seed=seed)
            self.passes = int(cursor["passes"])
            self.position = None if cursor["position"] is None else int(cursor["position"])

    position: int | None
    """Tokens of its lane that every row has read; None before a pass."""

    @property
    def epoch(self) -> float:
        """Passes done."""
        return self.passes + (self.position or 0) / self.lane

    @property
    def cursor(self) -> dict[str, Any]:
        return {
            **super().cursor,
            "batch": self.batch,
            "seed": self.seed,
            "passes": self.passes,
            "position": self.position,
        }

    def seek(self, epoch: float) -> None:
        self.passes, self.position = int(epoch), round(epoch % 1 * self.lane) or None

    def __next__(self) -> Batch:
        if self.position is not None and self.position + self.length > self.lane:
            self.passes, self.position = self.passes + 1, None
        fresh = self.position is None
        position = self._first() if self.position is None else self.position
        inputs_BL, targets_BL = self._take(self.row_B * self.lane + position, self.length)
        self.position = position + self.length
        return Batch(inputs_BL, targets_BL, fresh=fresh)

    def _first(self) -> int:
        """Where in its lane a pass begins: within what its whole segments leave over."""
        return mix(self.seed, self.passes) % (self.lane % self.length + 1)


class Sweep(Batches):
    """Every target once, in B lanes side by side, then the end; what fills up the last lane has weight 0.

    With one row it is the text from its beginning to its end. The last segment is as short as what is left.
    """

    kind = "sweep"

    def __init__(self, tokens: Tokens | np.ndarray, batch: int, length: int, *, rank: int = 0, world: int = 1) -> None:
        super().__init__(tokens, batch, length, rank=rank, world=world)
        if not self.targets:
            raise ValueError(
                f"{self.name}: {len(self.ids)} tokens, at least 2 are needed to predict one; use more text"
            )
        self.lane, self.position = -(-self.targets // batch), 0

    def __len__(self) -> int:
        """Batches in all."""
        return (self.lane + self.length - 1) // self.length

    def __next__(self) -> Batch:
        length = min(self.length, self.lane - self.position)
        if not length:
            raise StopIteration
        place_BL = self.row_B[:, None] * self.lane + self.position + np.arange(length)
        inside_BL = place_BL < self.targets
        place_BL = np.minimum(place_BL, self.targets - 1)
        inputs_BL, targets_BL = (torch.from_numpy(self.ids[place_BL + n].astype(np.int64)) for n in (0, 1))
        weights_BL = None if inside_BL.all() else torch.from_numpy(inside_BL.astype(np.float32))
        fresh, self.position = self.position == 0, self.position + length
        return Batch(inputs_BL, targets_BL, weights_BL, fresh)
