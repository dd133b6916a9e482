"""Scales of the figures of a search's front."""

from __future__ import annotations

from sublayer.nas.records import FrontModel, SearchResult
from sublayer.reports.units import Scale, scale


def measured(result: SearchResult) -> list[FrontModel]:
    """The models of the front that were measured."""
    return [one for one in result.front if one.measured is not None]


def scale_of(result: SearchResult, name: str, unit: str = "") -> Scale:
    """A scale for all values of a figure, predicted and measured."""
    return scale(name, [*(one.values.get(name) for one in result.front), *_measured(result, name)], unit)


def _measured(result: SearchResult, name: str) -> list[float | None]:
    return [one.measured_value(name) for one in measured(result)]
