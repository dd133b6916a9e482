"""front.json: what a search came to."""

from __future__ import annotations

from typing import Any

from sublayer.reports.folders import Record
from sublayer.reports.units import Scale, scale


class Aim(Record):
    name: str
    direction: str = "minimize"
    unit: str = ""


class Measured(Record):
    latency: float | None = None
    low: float | None = None
    high: float | None = None
    memory: float | None = None


class Member(Record):
    number: int
    layout: str = ""
    config: dict[str, Any] = {}
    values: dict[str, float | None]
    measured: Measured | None = None
    run: str | None = None


class Front(Record):
    """front.json."""

    objectives: list[Aim]
    front: list[Member]
    trials: int = 0
    feasible: int | None = None
    hypervolume: float | None = None
    hypervolumes: list[float | None] = []
    device: dict[str, Any] | None = None
    setting: dict[str, Any] | None = None
    predictor: dict[str, Any] | None = None

    @property
    def measured(self) -> list[Member]:
        return [one for one in self.front if one.measured is not None]

    def scale(self, name: str, unit: str = "") -> Scale:
        found = [one.values.get(name) for one in self.front]
        found += [getattr(one.measured, name, None) for one in self.measured]
        return scale(name, found, unit)
