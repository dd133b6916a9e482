"""Notes: what a checkpoint of a training holds beside its tensors, as a record."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from sublayer.runs.checkpoint import Checkpoint
from sublayer.runs.sealed_json import short

MOST = 2**62
"""Counts beyond it are not ours, and overflow 64 bits."""


@dataclass
class Progress:
    """Where a training stands, apart from its tensors."""

    step: int = 0
    """Optimiser steps done."""
    tokens: int = 0
    """Tokens read."""
    first: float | None = None
    """The loss of the first step that has one; later losses are compared with it to detect divergence."""
    best: float | None = None
    """The lowest loss on valid."""
    best_step: int | None = None
    stale: int = 0
    """Evaluations since the best."""

    @classmethod
    def read(cls, data: Any, origin: object) -> Progress:
        """From plain JSON; `origin` is named where it is not what was written."""
        known = {field.name for field in fields(cls)}
        if not isinstance(data, Mapping) or data.keys() - known:
            raise _wrong(origin, "progress", data, f"a table of {', '.join(sorted(known))}")
        progress = cls(**data)
        for name in ("step", "tokens", "stale"):
            if not is_count(getattr(progress, name)):
                raise _wrong(origin, f"progress.{name}", getattr(progress, name), "a number of at least 0")
        for name in ("first", "best", "best_step"):
            value = getattr(progress, name)
            if value is not None and (isinstance(value, bool) or not isinstance(value, int | float)):
                raise _wrong(origin, f"progress.{name}", value, "a number, or null")
        return progress

    def scored(self, loss: float) -> None:
        """Record a loss on valid at this step."""
        if self.best is None or loss < self.best:
            self.best, self.best_step, self.stale = loss, self.step, 0
        else:
            self.stale += 1

    def dump(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class Notes:
    progress: Progress
    cursor: Mapping[str, Any]
    """Position of the training in its data."""
    metrics: int
    """Bytes of metrics.jsonl written until then."""
    carried: Mapping[str, Any] | None = None
    """The structure of the carried state, whose tensors are in a file of their own."""

    @classmethod
    def read(cls, checkpoint: Checkpoint) -> Notes:
        """Refuse, in one line, notes that no training writes."""
        notes, origin = checkpoint.notes, checkpoint.path
        cursor, metrics, carried = notes.get("cursor"), notes.get("metrics"), notes.get("carried")
        if not isinstance(cursor, Mapping):
            raise _wrong(origin, "cursor", cursor, "a table")
        for name, value in cursor.items():
            if not isinstance(value, str | None) and not is_count(value):
                raise _wrong(origin, f"cursor.{name}", value, "a number of at least 0")
        if metrics is None or not is_count(metrics):
            raise _wrong(origin, "metrics", metrics, "a number of bytes")
        if carried is not None and not isinstance(carried, Mapping):
            raise _wrong(origin, "carried", carried, "a table")
        return cls(Progress.read(notes.get("progress"), origin), cursor, metrics, carried)

    def dump(self) -> dict[str, Any]:
        notes = {"progress": self.progress.dump(), "cursor": dict(self.cursor), "metrics": self.metrics}
        return notes if self.carried is None else {**notes, "carried": dict(self.carried)}


def is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MOST


def _wrong(origin: object, name: str, value: Any, expected: str) -> ValueError:
    return ValueError(
        f"{origin}: {name} is {short(value)} in its notes, expected {expected}; they were edited, use another "
        "checkpoint by --step, or train again"
    )
