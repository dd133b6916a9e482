"""What a comparison by length writes and others read: lengths.json, with the powers of the length that fit it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import linear_regression
from typing import Any

from sublayer.comparison.interval import Interval
from sublayer.comparison.records import ComparisonRow, ComparisonTable, Latency
from sublayer.runs.record import Record

FORMAT = 1
LABELS = {
    "loss": "valid loss",
    "test_loss": "test loss",
    "latency": "time of a pass over one row",
    "memory": "memory of that pass",
    "token_seconds": "training time a token",
    "step_memory": "training memory, as many tokens a step at every length",
}
"""Figure of a point → its name for people."""
FITTED = ("latency", "memory", "step_memory")
"""Figures that a power of the length is fitted to."""


class LengthPoint(Record):
    """One variant at one length."""

    length: int
    rows: int
    """Of the length, in a training step."""
    loss: Interval | None = None
    """On the validation split at the end, over seeds; None where training diverged with all of them."""
    test_loss: Interval | None = None
    latency: Latency | None = None
    """Seconds of a pass over one row."""
    memory: int | None = None
    """Bytes of that pass, at most in use at once."""
    token_seconds: float | None = None
    """Seconds of training for each token."""
    step_memory: int | None = None
    """Bytes by which a process grows that trains it."""
    diverged: dict[str, str] = {}
    """Seed → reason."""


class Exponents(Record):
    """Each figure grows about as the length to this power; None where fewer than two lengths have the figure."""

    latency: float | None = None
    memory: float | None = None
    step_memory: float | None = None


class LengthRow(Record):
    """One variant at all lengths."""

    name: str
    layout: str = ""
    config: dict[str, Any] | None = None
    params: int | None = None
    points: list[LengthPoint] = []
    exponents: Exponents = Exponents()


class LengthTable(Record):
    """lengths.json."""

    format: int = FORMAT
    metric: str = "valid_loss"
    baseline: str | None = None
    """The variant that each length's comparison compares the others with."""
    labels: dict[str, str] = LABELS
    lengths: list[int]
    """Those that are finished."""
    step_tokens: int
    """Read in a training step, about as many at every length."""
    rows: list[LengthRow]
    folders: dict[str, str] = {}
    """Length → the folder of its comparison."""
    asked: dict[str, Any] = {}
    """Of the shortest length, and all lengths."""
    device: dict[str, Any] | None = None


def exponent(lengths: Sequence[float], values: Sequence[float | None]) -> float | None:
    """p of the power c·length^p that fits best, by least squares on the logarithms; None for fewer than two lengths."""
    there = [(length, value) for length, value in zip(lengths, values, strict=True) if value is not None and value > 0]
    if len({length for length, _ in there}) < 2:
        return None
    xs, ys = ([math.log(number) for number in numbers] for numbers in zip(*there, strict=True))
    return linear_regression(xs, ys).slope


def figure(point: LengthPoint, name: str) -> float | None:
    """A figure by its name as one number: the mean of an interval, the median of a latency."""
    found = getattr(point, name)
    if name == "latency":
        return found and found.latency
    return found and found.mean if name in ("loss", "test_loss") else found


def tabulate_lengths(
    tables: Mapping[int, ComparisonTable], folders: Mapping[int, str], asked: Mapping[str, Any], step_tokens: int
) -> LengthTable:
    """From the comparison of each length; variants are in the same order in all of them."""
    lengths = sorted(tables)
    first = tables[lengths[0]]
    points = [
        [_point(tables[length].rows[n], length, rows_of(step_tokens, length)) for length in lengths]
        for n in range(len(first.rows))
    ]
    return LengthTable(
        metric=first.metric,
        baseline=first.baseline,
        lengths=lengths,
        step_tokens=step_tokens,
        rows=[_row(row, own) for row, own in zip(first.rows, points, strict=True)],
        folders={str(length): folders[length] for length in lengths},
        asked={**first.asked, **asked},
        device=first.device,
    )


def rows_of(step_tokens: int, length: int) -> int:
    """As many of the length as have about so many tokens."""
    return max(1, round(step_tokens / length))


def _row(row: ComparisonRow, points: list[LengthPoint]) -> LengthRow:
    lengths = [point.length for point in points]
    fitted = {name: exponent(lengths, [figure(point, name) for point in points]) for name in FITTED}
    about: dict[str, Any] = {"name": row.name, "layout": row.layout, "config": row.config, "params": row.params}
    return LengthRow(**about, points=points, exponents=Exponents(**fitted))


def _point(row: ComparisonRow, length: int, rows: int) -> LengthPoint:
    test = row.test.loss if row.test else None
    return LengthPoint(
        length=length,
        rows=rows,
        loss=None if row.mean is None else Interval(mean=row.mean, low=row.low, high=row.high),
        test_loss=None if test is None else Interval(mean=test.mean, low=test.low, high=test.high),
        latency=row.latency,
        memory=row.memory,
        token_seconds=1 / row.tokens_per_second if row.tokens_per_second else None,
        step_memory=row.step_memory,
        diverged=row.diverged,
    )
