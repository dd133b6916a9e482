"""The models of a search's front, with what a page writes about each: name, spec, measurement, training."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sublayer.nas.pick import PICKS, is_within, pick
from sublayer.nas.records import FrontModel, MeasuredFigures, SearchResult
from sublayer.reports.history import History
from sublayer.reports.pareto import ParetoAxis, Point
from sublayer.reports.sections.source import Source, counts
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
    picks: tuple[str, ...] = ()
    """The words by which it can be named instead of its number: best, fastest, knee."""

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
    words = _picks(front)
    made = []
    for one, line in zip(front.front, lines, strict=True):
        run = by_path.get(source.path / one.run) if one.run else None
        known = source.trained_elsewhere(one.number, one.config)
        over, picks = not is_within(one, front.limits), tuple(words.get(one.number, ()))
        made.append(Candidate(one, f"{source.path}#{one.number}", line or one.layout, run, known, over, picks))
    return made


def _picks(front: SearchResult) -> dict[int, list[str]]:
    """Trial → the words that name it; a word that means no model of this front is left out."""
    made: dict[int, list[str]] = {}
    for word in PICKS:
        try:
            made.setdefault(pick(front, word).number, []).append(word)
        except (ValueError, KeyError):  # a front without latency, or without a value for an objective
            continue
    return made


def disturbed(one: FrontModel, name: str = "latency") -> str:
    """What spoils a measured figure of it; empty if nothing does. Only latency can be disturbed."""
    return (one.measured.disturbed if one.measured and name == "latency" else None) or ""


def sound_value(one: FrontModel, name: str) -> float | None:
    """A measured figure of it, unless it was disturbed."""
    return None if disturbed(one, name) else one.measured_value(name)


def budget_point(result: SearchResult, objectives: Sequence[ParetoAxis]) -> Point | None:
    """The model that sets the budget, as measured and as counted; None where a figure of it is unknown or disturbed."""
    if result.budget is None or (result.budget.measured and result.budget.measured.disturbed):
        return None
    counted = counts(result.budget.config)
    measured = result.budget.measured or MeasuredFigures()
    values = [measured.value(one.name) or counted.get(one.name) for one in objectives]
    known = tuple(value for value in values if value is not None)
    return Point(-1, "", known, "the model that sets the budget") if len(known) == len(objectives) else None


def scale_of(result: SearchResult, name: str, unit: str = "") -> Scale:
    """A scale for all values of a figure, predicted and measured."""
    figures = [value for one in result.front for value in (one.values.get(name), one.measured_value(name))]
    return scale(name, figures, unit)


def errors(result: SearchResult, name: str) -> list[float]:
    """Of the predictions of a figure, in per cent of what was measured."""
    clean = (one for one in result.front if not disturbed(one, name))
    found = (percent(one.values.get(name), one.measured_value(name)) for one in clean)
    return [one for one in found if one is not None]
