"""Pareto charts: all that was tried as pale dots, the front as a step line, a third objective as colour and size."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

from sublayer.nas.pareto import front as front_of
from sublayer.reports.charts import ACCENT, PALE, RAMP, Figure, Rows, altair, axis, look, table, thin
from sublayer.reports.units import Scale
from sublayer.runs.wording import plural

DOTS = 4000
"""Most trials in a chart; more make the page larger, but show no more."""


@dataclass(frozen=True)
class ParetoAxis:
    """An objective as a chart draws it."""

    name: str
    maximize: bool
    scale: Scale

    @property
    def better(self) -> str:
        return "more is better" if self.maximize else "less is better"

    def cost(self, value: float) -> float:
        return -value if self.maximize else value


@dataclass(frozen=True)
class Point:
    number: int
    layout: str
    values: Sequence[float]
    """One an objective."""


def nondominated(points: Sequence[Point], axes: Sequence[int], objectives: Sequence[ParetoAxis]) -> list[Point]:
    """Those that no other point beats in these objectives, from the least of the last to its most."""
    if not points:
        return []
    costs = [[objectives[at].cost(one.values[at]) for at in axes] for one in points]
    best = [points[index] for index in front_of(costs)]
    return sorted(best, key=lambda one: (one.values[axes[-1]], one.number))


def pairs(objectives: Sequence[ParetoAxis], front: Sequence[Point]) -> list[tuple[int, int]]:
    """Which two to draw against each other, as y and x: the first with each; others where there is a choice to make."""
    made = [(0, at) for at in range(1, len(objectives))]
    rest = combinations(range(1, len(objectives)), 2)
    return made + [pair for pair in rest if len(nondominated(front, pair, objectives)) > 2]


def figures(objectives: Sequence[ParetoAxis], front: Sequence[Point], trials: Sequence[Point], of: int) -> list[Figure]:
    """One for each pair; `of`: how many were tried, of which `trials` are at hand."""
    dots = thin([_shown(one, objectives) for one in trials], DOTS)
    return [_figure(objectives, front, dots, of, pair) for pair in pairs(objectives, front)]


def _figure(
    objectives: Sequence[ParetoAxis], front: Sequence[Point], dots: Rows, of: int, pair: tuple[int, int]
) -> Figure:
    alt = altair()
    up, along = objectives[pair[0]], objectives[pair[1]]
    third = [objective for at, objective in enumerate(objectives) if at not in pair][:1]
    points = [_shown(one, objectives) for one in front]
    where = {
        "x": alt.X(_field(pair[1]), **axis(along.scale, _column(dots + points, pair[1]), f", {along.better}")),
        "y": alt.Y(_field(pair[0]), **axis(up.scale, _column(dots + points, pair[0]), f", {up.better}")),
    }
    tips = [alt.Tooltip(_field(at), title=one.scale.label, format=",.4~f") for at, one in enumerate(objectives)]
    tooltip = [alt.Tooltip("number:Q", title="trial"), *tips]
    edge = [_shown(one, objectives) for one in nondominated(front, pair, objectives)]
    step = "step-before" if along.maximize else "step-after"
    layers = []
    if dots:
        pale = alt.Chart(table(dots)).mark_circle(size=14, color=PALE, opacity=0.35)
        layers.append(pale.encode(**where, tooltip=tooltip))
    layers.append(alt.Chart(table(edge)).mark_line(color=ACCENT, strokeWidth=1.5, interpolate=step).encode(**where))
    on = alt.Chart(table(points)).mark_circle(opacity=0.95, size=64, color=ACCENT)
    coloured = {}
    if third:
        at, name = objectives.index(third[0]), third[0].scale.label
        ramp = alt.Scale(range=list(RAMP), zero=False)
        coloured["color"] = alt.Color(_field(at), title=name, scale=ramp, legend=alt.Legend(gradientLength=160))
        coloured["size"] = alt.Size(_field(at), title=name, scale=alt.Scale(range=[36, 150], zero=False))
    layers.append(on.encode(**where, **coloured, tooltip=[*tooltip, alt.Tooltip("layout:N", title="layout")]))
    title = f"{up.scale.title} against {along.scale.title}"
    return Figure(
        f"front-{up.name}-{along.name}".replace("_", "-"),
        title[0].upper() + title[1:],
        _note(front, dots, of, third),
        look(alt.layer(*layers), 360),
    )


def _note(front: Sequence[Point], dots: Rows, of: int, third: Sequence[ParetoAxis]) -> str:
    tried = f"Pale: {len(dots):,} of {plural(of, 'model')} tried, within the limits. " if dots else ""
    rest = f"; colour and size: {third[0].scale.title}" if third else ""
    return f"{tried}Dots: the {len(front)} on the front in all objectives{rest}. Line: the front in these two."


def _shown(one: Point, objectives: Sequence[ParetoAxis]) -> dict[str, Any]:
    """In the units of the axes, under names that need no quoting."""
    figures = [objective.scale.shown(value) for objective, value in zip(objectives, one.values, strict=True)]
    layout = {"layout": one.layout} if one.layout else {}
    return {"number": one.number, **layout, **{f"o{at}": value for at, value in enumerate(figures)}}


def _field(at: int) -> str:
    return f"o{at}:Q"


def _column(rows: Rows, at: int) -> list[float | None]:
    return [row[f"o{at}"] for row in rows]
