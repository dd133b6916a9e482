"""Pareto charts: all that was tried as pale dots, the front as a step line, a third objective as colour and size.

Beside a predicted dot stands a ring where the model was measured; a diamond marks a trained model, dashes a limit.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

from sublayer.nas.pareto import front as front_of
from sublayer.reports.charts import (
    ACCENT,
    GREY,
    PALE,
    PALETTE,
    RAMP,
    WARNING,
    Entry,
    Figure,
    Rows,
    altair,
    axis,
    look,
    table,
    thin,
)
from sublayer.reports.units import DIGITS, Scale, amount
from sublayer.runs.wording import plural

Axes = dict[str, dict[str, Any]]
"""Of x and y: scale and title."""
DOTS = 4000
"""Most trials in a chart; more make the page larger, but show no more."""
PREDICTED = ("latency", "memory")
"""Figures of a candidate that are predicted, and measured later; all others are counted or scored."""
FAR = 1.5
"""A limit that is more than so many times the largest value is named below the chart instead of drawn."""


@dataclass(frozen=True)
class ParetoAxis:
    """An objective as a chart draws it."""

    name: str
    maximize: bool
    scale: Scale

    @property
    def better(self) -> str:
        return "more is better" if self.maximize else "less is better"

    @property
    def label(self) -> str:
        """`latency, predicted (ms)`."""
        return self.scale.called("predicted" if self.name in PREDICTED else "")

    def cost(self, value: float) -> float:
        return -value if self.maximize else value


@dataclass(frozen=True)
class Point:
    number: int
    layout: str
    values: Sequence[float]
    """One an objective."""
    name: str = ""
    """As commands take it: `searches/first#17`."""
    spec: str = ""
    """The model in a line."""
    measured: Sequence[float | None] = ()
    """One an objective, None where it is not measured; empty where nothing is."""
    above: bool = False
    """Whether a measured figure is above its limit."""
    trained: str = ""
    """Where, and how well; empty where it is not."""


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


@dataclass(frozen=True)
class Front:
    """What a search found, for its charts."""

    objectives: Sequence[ParetoAxis]
    points: Sequence[Point]
    trials: Sequence[Point] = ()
    """Others that were tried, as predicted at that time."""
    tried: int = 0
    """How many there were in all."""
    anew: bool = False
    """Whether the front was predicted anew since, from better readings."""
    limits: Mapping[str, float] | None = None
    folder: str = ""
    """Put before # and a number, it is a candidate's name."""
    budget: Point | None = None
    """The model whose latency is the limit."""
    disturbed: int = 0
    """Measurements that are not drawn, because they were disturbed."""


def figures(front: Front) -> list[Figure]:
    """One for each pair of objectives."""
    dots = thin([_shown(one, front.objectives) for one in front.trials], DOTS)
    return [_figure(front, dots, pair) for pair in pairs(front.objectives, front.points)]


def _figure(front: Front, dots: Rows, pair: tuple[int, int]) -> Figure:
    alt, objectives = altair(), front.objectives
    up, along = objectives[pair[0]], objectives[pair[1]]
    third = [at for at in range(len(objectives)) if at not in pair][:1]
    points = [_shown(one, objectives) for one in front.points]
    limits = _limits(front, dots + points, pair)
    seen = dots + points + [_measured(one, objectives) for one in front.points if one.measured]
    budget = [_shown(front.budget, objectives)] if front.budget else []
    seen += budget
    values = [[*_column(seen, at), *(one["at"] for one in limits if one["axis"] == at)] for at in pair]
    axes = {"x": _axis(along, values[1]), "y": _axis(up, values[0])}
    where = _where(axes, _field(pair[1]), _field(pair[0]))
    tips = [alt.Tooltip("name:N", title="model")]
    tips += [alt.Tooltip(_field(at), title=one.label, format=DIGITS) for at, one in enumerate(objectives)]
    layers = []
    if dots:
        named = f"{json.dumps(front.folder + '#')} + datum.number"
        pale = alt.Chart(table(dots)).transform_calculate(name=named).mark_circle(size=14, color=PALE, opacity=0.35)
        layers.append(pale.encode(**where, tooltip=tips))
    layers += [_rule(one, axes) for one in limits if one["at"] is not None]
    edge = [_shown(one, objectives) for one in nondominated(front.points, pair, objectives)]
    step = "step-before" if along.maximize else "step-after"
    layers.append(alt.Chart(table(edge)).mark_line(color=ACCENT, strokeWidth=1.5, interpolate=step).encode(**where))
    layers += _readings(front, axes, pair)
    on = alt.Chart(table(points)).mark_circle(opacity=0.95, size=64, color=ACCENT)
    tips += [alt.Tooltip(f"{name}:N", title=name) for name in ("spec", "trained") if any(name in row for row in points)]
    layers.append(on.encode(**where, **_third(objectives, third), tooltip=tips))
    if trained := [row for row in points if "trained" in row]:
        diamonds = alt.Chart(table(trained)).mark_point(shape="diamond", size=260, color=PALETTE[1], strokeWidth=2.5)
        layers.append(diamonds.encode(**where, tooltip=tips))
    if budget:
        square = alt.Chart(table(budget)).mark_point(shape="square", size=90, color=WARNING, filled=True, opacity=1)
        layers.append(square.encode(**where, tooltip=tips))
    title = f"{up.scale.title} against {along.scale.title}"
    return Figure(
        f"front-{up.name}-{along.name}".replace("_", "-"),
        title[0].upper() + title[1:],
        _note(front, pair, third, limits),
        look(alt.layer(*layers), 360),
        _key(front, dots, pair, limits),
        has_legend=False,
    )


def _axis(one: ParetoAxis, values: Sequence[float | None]) -> dict[str, Any]:
    return {**axis(one.scale, values), "title": f"{one.label}, {one.better}"}


def _where(axes: Axes, x: str, y: str) -> dict[str, Any]:
    """The channels of two fields, on the same axes in every layer."""
    alt = altair()
    return {"x": alt.X(x, **axes["x"]), "y": alt.Y(y, **axes["y"])}


def _third(objectives: Sequence[ParetoAxis], third: Sequence[int]) -> dict[str, Any]:
    """Colour and size by an objective that is on neither axis."""
    if not third:
        return {}
    alt, at = altair(), third[0]
    name, ramp = objectives[at].label, alt.Scale(range=list(RAMP), zero=False)
    return {
        "color": alt.Color(_field(at), title=name, scale=ramp, legend=alt.Legend(tickCount=4, titleLimit=300)),
        "size": alt.Size(_field(at), scale=alt.Scale(range=[36, 150], zero=False), legend=None),
    }


def _limits(front: Front, rows: Rows, pair: tuple[int, int]) -> list[dict[str, Any]]:
    """The limits on the two axes, and whether they are near enough to be drawn."""
    made = []
    for at in pair:
        one = front.objectives[at]
        limit = one.scale.shown((front.limits or {}).get(one.name))
        most = max((value for value in _column(rows, at) if value is not None), default=None)
        if limit is not None and most is not None:
            words = f"{one.scale.title} at most {amount(one.name, (front.limits or {})[one.name])}"
            made.append({"axis": at, "at": limit if limit <= FAR * most else None, "words": words, "up": at == pair[0]})
    return made


def _rule(limit: dict[str, Any], axes: Axes) -> Any:
    """A limit as a line across the chart."""
    alt = altair()
    rule = alt.Chart(table([{"at": limit["at"], "limit": limit["words"]}]))
    rule = rule.mark_rule(color=WARNING, strokeDash=[5, 4], strokeWidth=1.5)
    side = "y" if limit["up"] else "x"
    return rule.encode(**{side: _where(axes, "at:Q", "at:Q")[side]}, tooltip=[alt.Tooltip("limit:N", title="limit")])


def _readings(front: Front, axes: Axes, pair: tuple[int, int]) -> list[Any]:
    """A ring where a model was measured, with a line from what was predicted."""
    alt = altair()
    rows = []
    for one in _ringed(front, pair):
        found = _measured(one, front.objectives)
        rows.append({**_shown(one, front.objectives), "x2": found[f"o{pair[1]}"], "y2": found[f"o{pair[0]}"]})
        rows[-1]["ring"] = WARNING if one.above else GREY
    if not rows:
        return []
    base, colour = alt.Chart(table(rows)), alt.Color("ring:N", scale=None)
    where = _where(axes, _field(pair[1]), _field(pair[0]))
    tips = [alt.Tooltip("name:N", title="model")]
    for side, at in (("x", pair[1]), ("y", pair[0])):
        one = front.objectives[at]
        if one.name in PREDICTED:
            tips.append(alt.Tooltip(f"{side}2:Q", title=one.scale.called("measured"), format=DIGITS))
            tips.append(alt.Tooltip(_field(at), title=one.label, format=DIGITS))
    return [
        base.mark_rule(opacity=0.6).encode(**where, x2="x2:Q", y2="y2:Q", color=colour),
        base.mark_point(size=70, strokeWidth=1.8).encode(**_where(axes, "x2:Q", "y2:Q"), color=colour, tooltip=tips),
    ]


def _ringed(front: Front, pair: tuple[int, int]) -> list[Point]:
    """Models with a measurement of a figure on one of these axes: they get a ring."""
    return [one for one in front.points if one.measured and any(one.measured[at] is not None for at in pair)]


def _key(front: Front, dots: Rows, pair: tuple[int, int], limits: Sequence[Mapping[str, Any]]) -> list[Entry]:
    made = [Entry("tried", PALE, "circle")] if dots else []
    made += [Entry("on the front, predicted", ACCENT, "circle"), Entry("the front in these two", ACCENT, "line")]
    if any(not one.above for one in _ringed(front, pair)):
        made.append(Entry("measured", GREY, "ring"))
    if any(one.above for one in _ringed(front, pair)):
        made.append(Entry("measured, above a limit", WARNING, "ring"))
    if any(one.trained for one in front.points):
        made.append(Entry("trained", PALETTE[1], "diamond"))
    if front.budget:
        made.append(Entry("the model that sets the budget, measured", WARNING, "square"))
    return made + [Entry(f"limit: {one['words']}", WARNING, "dashes") for one in limits if one["at"] is not None]


def _note(front: Front, pair: tuple[int, int], third: Sequence[int], limits: Sequence[Mapping[str, Any]]) -> str:
    dots = min(len(front.trials), DOTS)
    then = ", as predicted then; the front was predicted anew from better readings" if front.anew else ""
    tried = f"Pale: {dots:,} others of {plural(front.tried, 'model')} tried, within the limits{then}. " if dots else ""
    rest = f"; colour and size: {front.objectives[third[0]].scale.title}" if third else ""
    far = "".join(f" Beyond the chart: {one['words']}." for one in limits if one["at"] is None)
    unsure = front.disturbed if any(front.objectives[at].name == "latency" for at in pair) else 0
    left = f" Not drawn: {plural(unsure, 'measurement')} of latency on a busy machine." if unsure else ""
    return f"{tried}Dots: the {len(front.points)} on the front in all objectives{rest}.{far}{left}"


def _shown(one: Point, objectives: Sequence[ParetoAxis]) -> dict[str, Any]:
    """In the units of the axes, under names that need no quoting."""
    figures = [objective.scale.shown(value) for objective, value in zip(objectives, one.values, strict=True)]
    words = {"name": one.name, "spec": one.spec, "trained": one.trained}
    told = {name: value for name, value in words.items() if value}
    return {"number": one.number, **told, **{f"o{at}": value for at, value in enumerate(figures)}}


def _measured(one: Point, objectives: Sequence[ParetoAxis]) -> dict[str, Any]:
    """As measured; predicted where there is no measurement."""
    figures = zip(objectives, one.measured, one.values, strict=True)
    found = [objective.scale.shown(predicted if value is None else value) for objective, value, predicted in figures]
    return {f"o{at}": value for at, value in enumerate(found)}


def _field(at: int) -> str:
    return f"o{at}:Q"


def _column(rows: Rows, at: int) -> list[float | None]:
    return [row[f"o{at}"] for row in rows]
