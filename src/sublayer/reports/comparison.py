"""table.json: what a comparison came to."""

from __future__ import annotations

import math
from typing import Any

from sublayer.reports.folders import Record
from sublayer.reports.units import KNOWN, scale


class Interval(Record):
    mean: float | None = None
    low: float | None = None
    high: float | None = None


class Difference(Interval):
    """To the first variant, seed by seed."""

    verdict: str = ""


class Row(Record):
    name: str
    layout: str = ""
    config: dict[str, Any] | None = None
    params: float | None = None
    seeds: list[int] = []
    losses: list[float | None] = []
    mean: float | None = None
    low: float | None = None
    high: float | None = None
    bits_per_byte: Interval | None = None
    latency: Any = None
    memory: Any = None
    tokens_per_second: Any = None
    tokens: Any = None
    difference: Difference | None = None
    diverged: dict[str, Any] = {}
    runs: list[str] = []

    def figure(self, name: str) -> float | None:
        """A number, or the middle of one that was written with its spread."""
        value = getattr(self, name)
        if isinstance(value, dict):
            value = next((value[key] for key in ("mean", "median", name) if key in value), None)
        return float(value) if isinstance(value, int | float) and math.isfinite(value) else None


class Table(Record):
    """table.json."""

    rows: list[Row]
    metric: str = "valid_loss"
    how: str = ""
    baseline: str | None = None
    asked: dict[str, Any] = {}
    device: dict[str, Any] | None = None

    @property
    def label(self) -> str:
        """With its unit, for an axis."""
        return scale(self.metric, []).label

    @property
    def title(self) -> str:
        return KNOWN.get(self.metric, (self.metric.replace("_", " "), ""))[0]

    @property
    def ranked(self) -> list[Row]:
        """The best first; those without a result last."""
        return sorted(self.rows, key=lambda row: (row.mean is None, row.mean or 0.0))
