"""The section of a search: its front by pairs of objectives, predicted figures beside measured ones."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import median

from sublayer.nas.records import FrontModel, SearchResult
from sublayer.reports import pareto, trials
from sublayer.reports.charts import ACCENT, GREY, Figure, altair, axis, look, table
from sublayer.reports.folders import KINDS, Found, read, read_asked
from sublayer.reports.front import measured, scale_of
from sublayer.reports.history import History
from sublayer.reports.markup import Markup
from sublayer.reports.pareto import ParetoAxis, Point
from sublayer.reports.section import Column, Section, facts, folded, heading, legend, model_cell
from sublayer.reports.section import table as html_table
from sublayer.reports.sections import runs as run_pieces
from sublayer.reports.sections.asked import again
from sublayer.reports.units import percent, signed
from sublayer.runs.wording import plural

SHOWN = 24
"""Rows of the front's table before the rest is folded away."""


def section(found: Found, runs: Sequence[History], tokens: int) -> Section:
    result, asked = KINDS["search"]
    front = read(found.path / result, SearchResult)
    objectives = [
        ParetoAxis(one.name, one.direction == "maximize", scale_of(front, one.name, one.unit))
        for one in front.objectives
    ]
    points = _points(front, objectives)
    tried = trials.read(found.path, len(objectives))
    body: list[Markup | Figure] = []
    if len(objectives) > 1 and points:
        body += pareto.figures(objectives, points, tried, front.trials or len(tried))
    by_path = {run.run.path: run for run in runs}
    chosen = {
        one.number: by_path[found.path / one.run] for one in front.front if one.run and found.path / one.run in by_path
    }
    if front.front:
        body += [
            heading("The front"),
            legend(one.layout for one in front.front),
            *_front_table(front, objectives, chosen),
        ]
    body += [figure for name in ("latency", "memory") if (figure := _predicted(front, name))]
    body += [_hypervolume(front)] if len(front.hypervolumes) > 1 else []
    body += [figure for figure in [_trained(front, objectives, chosen)] if figure]
    if runs:
        body += [heading("Trained models of this search"), *run_pieces.pieces(runs, tokens)]
    if front.device or front.setting:
        body.append(folded("Device and setting", facts({**(front.device or {}), **(front.setting or {})})))
    if front.predictor:
        body.append(folded("The predictor of latency and memory", facts(front.predictor.to_json())))
    body += [*again("search", found.path, read_asked(found.path / asked)), *run_pieces.repeats(runs)]
    models = [(f"trial {one.number}", one.layout, one.config or None) for one in front.front]
    return Section("Search", str(found.path), _headline(front, objectives), body, models)


def _points(front: SearchResult, objectives: Sequence[ParetoAxis]) -> list[Point]:
    """Models that have a finite value for every objective."""
    found = [(one, [one.values.get(objective.name) for objective in objectives]) for one in front.front]
    return [
        Point(one.number, one.layout, tuple(value for value in values if value is not None))
        for one, values in found
        if all(value is not None and math.isfinite(value) for value in values)
    ]


def _headline(front: SearchResult, objectives: Sequence[ParetoAxis]) -> str:
    names = [one.scale.title for one in objectives]
    named = " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)
    words = f"{plural(front.trials, 'model')} tried for {named}: {len(front.front)} on the front"
    complete = [
        one for one in front.front if all(one.values.get(objective.name) is not None for objective in objectives)
    ]
    if len(complete) > 1:
        order = sorted(complete, key=lambda one: one.values[objectives[0].name] or 0.0)
        words += f", from {_amounts(order[0], objectives, named=True)} to {_amounts(order[-1], objectives)}"
    errors = _errors(front, "latency")
    if errors:
        off = (
            f"{median(abs(one) for one in errors):.1f} % in the median, {max(abs(one) for one in errors):.1f} % at most"
        )
        words += f". Predicted latency is off by {off}, on {plural(len(errors), 'measured model')}"
    return words + "."


def _amounts(one: FrontModel, objectives: Sequence[ParetoAxis], named: bool = False) -> str:
    """1.05 M decoder parameters at 1.66 ms and 8.79 MB."""
    first, *rest = [objective.scale.words(one.values[objective.name]) for objective in objectives]
    first += f" {objectives[0].scale.title}" if named else ""
    return f"{first} at {' and '.join(rest)}" if rest else first


def _errors(front: SearchResult, name: str) -> list[float]:
    found = (percent(one.values.get(name), one.measured_value(name)) for one in measured(front))
    return [one for one in found if one is not None]


def _front_table(front: SearchResult, objectives: Sequence[ParetoAxis], chosen: dict[int, History]) -> list[Markup]:
    """By the first objective. Of a long front, measured models or some evenly spaced are shown, the rest folded."""
    first = objectives[0].name
    members = sorted(front.front, key=lambda one: (one.values.get(first) or 0.0, one.number))
    whole = _table(front, objectives, members, chosen)
    if len(members) <= SHOWN:
        return [whole]
    step = (len(members) - 1) / (SHOWN - 1)
    evenly = [members[round(index * step)] for index in range(SHOWN)]
    some = [one for one in members if one.measured or one.number in chosen] or evenly
    return [_table(front, objectives, some, chosen), folded(f"All {len(members)} models of the front", whole)]


def _table(
    front: SearchResult, objectives: Sequence[ParetoAxis], members: Sequence[FrontModel], chosen: dict[int, History]
) -> Markup:
    columns = [
        Column("trial", [str(one.number) for one in members]),
        Column("layout", [model_cell(one.layout, one.config or None) for one in members], number=False),
    ]
    names = list(dict.fromkeys([*(one.name for one in objectives), "params", "latency", "memory"]))
    for name in names:
        known = scale_of(front, name, next((one.unit for one in front.objectives if one.name == name), ""))
        values = [one.values.get(name) for one in members]
        if name not in ("latency", "memory") or not measured(front):
            columns.append(Column(known.label, [known.number(value) for value in values]))
            continue
        found = [one.measured_value(name) for one in members]
        off = [signed(percent(*pair)) for pair in zip(values, found, strict=True)]
        columns.append(Column(f"{known.label}, predicted", [known.number(value) for value in values]))
        columns.append(Column("measured", [known.number(value) for value in found]))
        columns.append(Column("off by", off))
    best = [chosen[one.number].best if one.number in chosen else {} for one in members]
    for name, title in (("valid_loss", "validation loss"), ("valid_bits_per_byte", "bits per byte")):
        columns.append(Column(title, [f"{line[name]:.4f}" if name in line else "—" for line in best]))
    return html_table(columns, f"{plural(len(members), 'model')} of the front, by {objectives[0].scale.title}")


def _predicted(front: SearchResult, name: str) -> Figure | None:
    """Predicted against measured, with the line on which they would be equal."""
    alt, known = altair(), scale_of(front, name)
    rows = [
        {
            "number": one.number,
            "layout": one.layout,
            "x": known.shown(one.measured_value(name)),
            "y": known.shown(one.values.get(name)),
            "low": known.shown(one.measured.low if name == "latency" and one.measured else None),
            "high": known.shown(one.measured.high if name == "latency" and one.measured else None),
        }
        for one in measured(front)
        if percent(one.values.get(name), one.measured_value(name)) is not None
    ]
    if not rows:
        return None
    ends = [value for row in rows for value in (row["x"], row["y"], row["low"], row["high"]) if value is not None]
    known_axis = axis(known, ends)
    diagonal = [{"x": end, "y": end} for end in (min(ends), max(ends))]
    title, how = known.title, known_axis["scale"]
    x = alt.X("x:Q", title=f"measured {known.label}", scale=how)
    y = alt.Y("y:Q", title=f"predicted {known.label}", scale=how)
    line = alt.Chart(table(diagonal)).mark_line(color=GREY, strokeDash=[4, 4], strokeWidth=1).encode(x=x, y=y)
    tips = [alt.Tooltip("number:Q", title="trial"), alt.Tooltip("layout:N", title="layout")]
    tips += [
        alt.Tooltip("x:Q", title="measured", format=",.4~f"),
        alt.Tooltip("y:Q", title="predicted", format=",.4~f"),
    ]
    points = alt.Chart(table(rows)).mark_circle(color=ACCENT, size=64, opacity=0.9).encode(x=x, y=y, tooltip=tips)
    spread = (
        alt.Chart(table(rows))
        .mark_rule(color=ACCENT, opacity=0.6)
        .encode(x=alt.X("low:Q", scale=how), x2="high:Q", y=y)
    )
    errors = _errors(front, name)
    off = median(abs(one) for one in errors)
    note = f"Dashed: equal. Off by {off:.1f} % in the median of {plural(len(rows), 'model')}."
    bars = [spread.transform_filter("isValid(datum.low) && isValid(datum.high)")] if name == "latency" else []
    return Figure(
        f"predicted-{name}", f"Predicted against measured {title}", note, look(alt.layer(line, *bars, points), 340)
    )


def _hypervolume(front: SearchResult) -> Figure:
    alt = altair()
    rows = [
        {"x": at, "y": value}
        for at, value in enumerate(front.hypervolumes)
        if value is not None and math.isfinite(value)
    ]
    tips = [alt.Tooltip("x:Q", title="generation"), alt.Tooltip("y:Q", title="hypervolume", format=",.6~g")]
    x = alt.X("x:Q", title="generation", axis=alt.Axis(tickMinStep=1, format="d"))
    y = alt.Y(
        "y:Q",
        title="hypervolume, as a share" if _shares(front) else "hypervolume",
        scale=alt.Scale(zero=False),
        axis=alt.Axis(format=".3~g"),
    )
    chart = alt.Chart(table(rows)).mark_line(color=ACCENT, strokeWidth=2, point={"size": 24, "color": ACCENT})
    note = "Share of the box of objectives that the front dominates; a flat curve means that the search has converged."
    return Figure("hypervolume", "Hypervolume by generation", note, look(chart.encode(x=x, y=y, tooltip=tips), 220))


def _shares(front: SearchResult) -> bool:
    return all(value is None or 0 <= value <= 1 for value in front.hypervolumes)


def _trained(front: SearchResult, objectives: Sequence[ParetoAxis], chosen: dict[int, History]) -> Figure | None:
    """The validation loss of the models that were trained, against their cost."""
    against = next((one for one in objectives if one.name == "latency"), None) or next(
        (one for one in objectives if not one.maximize), objectives[0]
    )
    rows = [
        {
            "number": one.number,
            "layout": one.layout,
            "x": against.scale.shown(_best_known(one, against.name)),
            "y": chosen[one.number].best["valid_loss"],
        }
        for one in front.front
        if one.number in chosen and chosen[one.number].best and _best_known(one, against.name) is not None
    ]
    if len(rows) < 2:
        return None
    alt = altair()
    tips = [alt.Tooltip("number:Q", title="trial"), alt.Tooltip("layout:N", title="layout")]
    tips += [
        alt.Tooltip("x:Q", title=against.scale.label, format=",.4~f"),
        alt.Tooltip("y:Q", title="loss", format=".4f"),
    ]
    x = alt.X("x:Q", **axis(against.scale, [row["x"] for row in rows]))
    y = alt.Y("y:Q", title="validation loss (nats per token)", scale=alt.Scale(zero=False))
    chart = alt.Chart(table(rows)).mark_circle(color=ACCENT, size=80, opacity=0.9).encode(x=x, y=y, tooltip=tips)
    note = "The models of the front that were trained."
    return Figure("trained", f"Validation loss against {against.scale.title}", note, look(chart, 300))


def _best_known(one: FrontModel, name: str) -> float | None:
    """Measured if it was, else predicted."""
    measured = one.measured_value(name)
    return one.values.get(name) if measured is None else measured
