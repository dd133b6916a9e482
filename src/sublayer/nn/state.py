"""State: what a model carries from one segment to the next. A value that may be used once.

`model(ids, state)` consumes it, for a segment of any length; using it again raises, `fork()` copies. Under grad,
appending makes new tensors; without grad it writes into buffers that grow by doubling, so no step copies the past.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar, Self

import torch
from torch import Tensor

SMALL = 16
"""Entries for which there is always room in a new buffer."""


@dataclass(frozen=True)
class Growing:
    """A tensor that grows along one axis: the first `length` entries of a buffer with room to spare."""

    buffer: Tensor
    length: int
    axis: int

    @classmethod
    def of(cls, x: Tensor, axis: int) -> Growing:
        return cls(x, x.shape[axis], axis)

    def __len__(self) -> int:
        return self.length

    @property
    def value(self) -> Tensor:
        return self.buffer.narrow(self.axis, 0, self.length)

    def append(self, x: Tensor, keep: int | None = None) -> Growing:
        """With x after it. Of the entries before x, at least the last `keep` stay (None: all)."""
        if torch.is_grad_enabled():
            return Growing.of(torch.cat([self.last(keep), x], dim=self.axis), self.axis)
        end = self.length + x.shape[self.axis]
        if end <= self.buffer.shape[self.axis]:
            self.buffer.narrow(self.axis, self.length, x.shape[self.axis]).copy_(x)
            return Growing(self.buffer, end, self.axis)
        old = self.last(keep)
        end = old.shape[self.axis] + x.shape[self.axis]
        shape = list(old.shape)
        shape[self.axis] = max(2 * end, SMALL)
        buffer = old.new_empty(shape)
        buffer.narrow(self.axis, 0, old.shape[self.axis]).copy_(old)
        buffer.narrow(self.axis, old.shape[self.axis], x.shape[self.axis]).copy_(x)
        return Growing(buffer, end, self.axis)

    def last(self, count: int | None) -> Tensor:
        """The last `count` entries (all, if there are fewer or count is None)."""
        if count is None or count >= self.length:
            return self.value
        return self.buffer.narrow(self.axis, self.length - count, count)

    def tail(self, count: int) -> Growing:
        """The last `count` entries, with the spare room after them."""
        first = max(0, self.length - count)
        rest = self.buffer.shape[self.axis] - first
        return Growing(self.buffer.narrow(self.axis, first, rest), self.length - first, self.axis)

    def trim(self, count: int | None) -> Growing:
        """The last `count` entries, in a buffer that is not much longer than they are and the room to come."""
        if count is None or count >= self.length:
            return self
        if self.length <= 2 * count + SMALL or torch.is_grad_enabled():
            return self.tail(count)
        return Growing.of(self.last(count).clone(), self.axis)

    def map(self, change: Callable[[Tensor], Tensor]) -> Growing:
        return Growing.of(change(self.value), self.axis)


@dataclass(frozen=True)
class Constant:
    """A tensor without a batch axis that never changes: forks share it, selecting rows leaves it alone."""

    value: Tensor


class PartState:
    """Base for the state of one part: a frozen dataclass of tensors (batch first), Growings and plain values."""

    by_token: ClassVar[bool] = False
    """Whether all it holds is of single tokens, of which those marked as padding are never seen again."""

    def map(self, change: Callable[[Tensor], Tensor]) -> Self:
        return replace(self, **{f.name: map_tensors(getattr(self, f.name), change) for f in fields(self)})  # pyright: ignore[reportArgumentType]

    def select(self, rows: Tensor) -> Self:
        """Rows of the batch, in any order and number. Overridden where a tensor's first axis is not the batch."""
        return self.map(lambda x: x.index_select(0, rows))


def map_tensors(value: Any, change: Callable[[Tensor], Tensor]) -> Any:
    """`change` applied to every tensor inside a state; the structure stays the same."""
    if isinstance(value, Tensor):
        return change(value)
    if isinstance(value, (Growing, PartState)):
        return value.map(change)
    if isinstance(value, (tuple, list)):
        return type(value)(map_tensors(item, change) for item in value)
    if isinstance(value, dict):
        return {key: map_tensors(item, change) for key, item in value.items()}
    return value


def _select(value: Any, rows: Tensor) -> Any:
    """Rows of one entry of `State.parts`; a part's own state decides how."""
    if isinstance(value, PartState):
        return value.select(rows)
    if isinstance(value, (tuple, list)):
        return type(value)(_select(item, rows) for item in value)
    return map_tensors(value, lambda x: x.index_select(0, rows))


def _by_token(part: Any) -> bool:
    if isinstance(part, (tuple, list)):
        return all(_by_token(one) for one in part)
    return part is None or (isinstance(part, PartState) and part.by_token)


def _tensors(value: Any) -> list[Tensor]:
    """Every tensor inside a state that belongs to rows."""
    found: list[Tensor] = []
    map_tensors(value, lambda x: found.append(x) or x)
    return found


@dataclass
class State:
    """One model's state after some segments; each part's is in `parts`."""

    parts: tuple[Any, ...]
    """What the stack stores, mostly one entry per sublayer, None where nothing is remembered; empty at the start."""
    start: int = 0
    """How many tokens (padding included) were read."""
    next_B: Tensor | None = None
    """Next position per row, of a ragged history; None if it is `start` for all."""
    past_i: Growing | None = None
    past_valid: Growing | None = None
    source_BSD: Tensor | None = None
    source_valid_BS: Tensor | None = None
    used: bool = False

    @property
    def source(self) -> dict[str, Any]:
        """The source, as keyword arguments of a Scene."""
        return {"source_BSD": self.source_BSD, "source_valid_BS": self.source_valid_BS}

    def take(self) -> None:
        """Mark as consumed; a second time raises."""
        if self.used:
            raise ValueError(
                "this state was consumed by an earlier call; go on from the state that call returned, "
                "or fork() before the call to branch"
            )
        self.used = True

    def map(self, change: Callable[[Tensor], Tensor]) -> State:
        """A new state with `change` applied to every tensor; this one stays as it is."""
        if self.used:
            raise ValueError("this state was consumed by an earlier call; fork() or map() before the call")
        return State(**{f.name: map_tensors(getattr(self, f.name), change) for f in fields(self) if f.name != "used"})

    def fork(self) -> State:
        """A copy that shares no memory with this one: beams, branching."""
        return self.map(torch.clone)

    def detach(self) -> State:
        """Cut from the graph that made it (truncated backpropagation through time)."""
        return self.map(torch.detach)

    def select(self, rows: Tensor) -> State:
        """Rows of the batch, in any order and number: beams reordered, finished rows dropped."""
        rest = replace(self, parts=()).map(lambda x: x.index_select(0, rows))
        return replace(rest, parts=tuple(_select(part, rows) for part in self.parts))

    def reset(self, rows_B: Tensor) -> State:
        """The rows marked True begin anew, as at a new document: what they have read is padding from now on. Consumes
        the state."""
        if not all(_by_token(part) for part in self.parts):
            raise ValueError(
                "reset: a part of this model stores sums over what it has read, from which no row can be taken back; "
                "begin with a new state, or give the row that of another by select()"
            )
        self.take()
        B, P, device = len(rows_B), self.start, rows_B.device
        i_BP = torch.arange(P, device=device).expand(B, -1) if self.past_i is None else self.past_i.value
        valid_BP = ~rows_B[:, None].expand(-1, P)
        valid_BP = valid_BP if self.past_valid is None else valid_BP & self.past_valid.value
        next_B = torch.full((B,), P, device=device) if self.next_B is None else self.next_B
        past = {"past_i": Growing.of(i_BP, 1), "past_valid": Growing.of(valid_BP, 1)}
        return replace(self, **past, next_B=next_B.masked_fill(rows_B, 0), used=False)

    @property
    def size(self) -> int:
        """Numbers that the parts' states hold, all rows together; room to spare in buffers is not counted."""
        return sum(x.numel() for x in _tensors(self.parts))
