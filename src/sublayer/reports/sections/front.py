"""The models of a search's front, with what a page writes about each: name, spec, measurement, training."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sublayer.nas.records import FrontModel, SearchResult
from sublayer.reports.history import History
from sublayer.reports.sections.source import Source, hash_of
from sublayer.reports.spec import specs
from sublayer.reports.units import Scale, percent, scale, score


@dataclass(frozen=True)
class Candidate:
    """A model of the front, with what a page writes about it."""

    of: FrontModel
    name: str
    """As commands take it: `searches/first#17`."""
    spec: str
    run: History | None = None
    """Its training in this search."""
    elsewhere: str = ""
    """Its training in another folder of the report."""
    above: bool = False
    """Whether a measured figure is above its limit."""

    @property
    def number(self) -> int:
        return self.of.number

    @property
    def layout(self) -> str:
        return self.of.layout

    @property
    def best(self) -> dict[str, float]:
        return self.run.best if self.run else {}

    @property
    def trained(self) -> str:
        """Where, and how well."""
        if self.run is None:
            return self.elsewhere
        loss = f", validation loss {score(self.best['valid_loss'])}" if self.best else ""
        return f"{self.run.name}{loss}"


def candidates(source: Source, front: SearchResult) -> list[Candidate]:
    by_path = {run.run.path: run for run in source.runs}
    lines = specs([one.config or None for one in front.front])
    made = []
    for one, line in zip(front.front, lines, strict=True):
        run = by_path.get(source.path / one.run) if one.run else None
        known = source.elsewhere.get(hash_of(one.config) or "", "") if source.elsewhere else ""
        name = f"{source.path}#{one.number}"
        made.append(Candidate(one, name, line or one.layout, run, known, above(one, front.limits)))
    return made


def above(one: FrontModel, limits: Mapping[str, float]) -> bool:
    """Whether a measured figure exceeds the limit that its prediction met."""
    readings = ((one.measured_value(name), most) for name, most in limits.items())
    return any(reading is not None and reading > most for reading, most in readings)


def scale_of(result: SearchResult, name: str, unit: str = "") -> Scale:
    """A scale for all values of a figure, predicted and measured."""
    figures = [value for one in result.front for value in (one.values.get(name), one.measured_value(name))]
    return scale(name, figures, unit)


def errors(result: SearchResult, name: str) -> list[float]:
    """Of the predictions of a figure, in per cent of what was measured."""
    found = (percent(one.values.get(name), one.measured_value(name)) for one in result.front)
    return [one for one in found if one is not None]
