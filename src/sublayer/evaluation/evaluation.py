"""Evaluation: the figures of a trained model on a text or a task, with all that they depend on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sublayer.evaluation.ages import AgeBin
from sublayer.evaluation.scores import Score


@dataclass(frozen=True)
class Evaluation:
    """One of figures, lengths, positions and ages is the result; the others are None."""

    run: str
    step: int
    text: str
    """The title of the text or task."""
    split: str
    asked: str
    """The split that was asked for; another one was scored if it is empty."""
    length: int | None
    """Tokens in a segment; None where several lengths were tried, or where rows are read whole."""
    stride: int | None
    memory: int
    """Earlier tokens that a segment remembers."""
    trained_length: int
    row: str = "episode"
    """What is read whole, where rows are."""
    figures: Mapping[str, Any] | None = None
    """Of the objective: loss, perplexity, … of a text; accuracy, … of a task."""
    lengths: Mapping[int, Score] | None = None
    positions: Sequence[float | None] | None = None
    """Mean loss at each position of a segment; None where it is not finite."""
    datastore: Mapping[str, Any] | None = None
    """What was looked up beside the model: stores, settings, and the figures of the model alone."""
    ages: Sequence[AgeBin] | None = None
    """Attention by the age of keys, the youngest first."""

    def dump(self) -> dict[str, Any]:
        names = ("run", "step", "text", "split", "asked", "length", "stride", "memory")
        looked_up = {} if self.datastore is None else {"datastore": dict(self.datastore)}
        return {**{name: getattr(self, name) for name in names}, **self._result(), **looked_up}

    def _result(self) -> dict[str, Any]:
        if self.positions is not None:
            return {"positions": list(self.positions)}
        if self.ages is not None:
            return {"ages": [one.dump() for one in self.ages]}
        if self.lengths is not None:
            rows = self.lengths.items()
            return {"lengths": [{"length": n, "times": n / self.trained_length, **one.dump()} for n, one in rows]}
        return dict(self.figures or {})


def check_options(
    length: int | None, stride: int | None, lengths: Sequence[int], positions: bool, ages: bool = False
) -> None:
    """Refuse options that exclude each other."""
    if lengths and (length is not None or positions or ages):
        raise ValueError("lengths: has its own table and lengths; leave out length, positions and ages")
    if ages and (positions or stride is not None):
        raise ValueError("ages: attention while the text is read once; leave out positions and stride")
    if positions and stride is not None:
        raise ValueError(f"positions, stride={stride}: windows are scored at their ends only; leave out one of the two")
