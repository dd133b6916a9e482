"""The lines of metrics.jsonl, as records: what a training writes, and what reports, comparisons and searches read."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

VALID = "valid_"
SAMPLE = VALID + "batches"
"""Where a line has it, its figures are of a sample of valid: so many batches."""
OWN = ("step", "tokens", "stage", "rate", "norm")


@dataclass(frozen=True)
class TrainLine:
    """Means over the steps since the line before."""

    step: int
    tokens: int
    rate: float
    """The learning rate of the last of these steps."""
    losses: Mapping[str, float]
    """`loss`, and auxiliary losses by name."""
    norm: float
    """Of the gradient, before clipping."""
    stage: int | None = None
    """The number of the stage, from 1; None: the training has no stages."""

    @property
    def loss(self) -> float:
        return self.losses["loss"]

    def dump(self) -> dict[str, Any]:
        place = _place(self.step, self.tokens, self.stage)
        return {**place, "rate": self.rate, **self.losses, "norm": self.norm}


@dataclass(frozen=True)
class ValidLine:
    """The figures on valid at a step."""

    step: int
    tokens: int
    figures: Mapping[str, float]
    """`loss`, and what else the objective measures."""
    batches: int | None = None
    """Batches of a sample that was evaluated; None: all that is evaluated at the end."""
    stage: int | None = None

    @property
    def loss(self) -> float:
        return self.figures["loss"]

    def dump(self) -> dict[str, Any]:
        figures = {VALID + name: value for name, value in self.figures.items()}
        sample = {} if self.batches is None else {SAMPLE: self.batches}
        return {**_place(self.step, self.tokens, self.stage), **figures, **sample}


def _place(step: int, tokens: int, stage: int | None) -> dict[str, int]:
    return {"step": step, "tokens": tokens, **({} if stage is None else {"stage": stage})}


MetricsLine = TrainLine | ValidLine


def read_lines(lines: Iterable[Mapping[str, Any]]) -> list[MetricsLine]:
    """Records of the lines that are whole; a line without a step, tokens or a loss is none of ours."""
    return [record for line in lines if (record := read_line(line)) is not None]


def read_line(line: Mapping[str, Any]) -> MetricsLine | None:
    numbers = {name: value for name, value in line.items() if is_number(value)}
    if not {"step", "tokens"} <= numbers.keys():
        return None
    step, tokens = int(numbers["step"]), int(numbers["tokens"])
    stage = int(numbers["stage"]) if "stage" in numbers else None
    figures = {name.removeprefix(VALID): value for name, value in numbers.items() if name.startswith(VALID)}
    if "loss" in figures:
        batches = figures.pop("batches", None)
        return ValidLine(step, tokens, figures, None if batches is None else int(batches), stage)
    losses = {name: value for name, value in numbers.items() if name not in OWN}
    if "loss" not in losses:
        return None
    return TrainLine(step, tokens, numbers.get("rate", math.nan), losses, numbers.get("norm", math.nan), stage)


def comparable(lines: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Of lines of a run, those with scores that may be compared with each other and with other runs': on all that is
    evaluated at the end; those on a sample, as long as there are no others."""
    scored = [line for line in lines if VALID + "loss" in line]
    return [line for line in scored if SAMPLE not in line] or scored


def is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
