"""The section of a search: its front by pairs of objectives, predicted figures beside measured ones."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import median

from sublayer.nas.records import FrontModel, PredictorErrors, SearchResult
from sublayer.reports import pareto, trials
from sublayer.reports.charts import Figure
from sublayer.reports.folders import KINDS, read, read_asked
from sublayer.reports.markup import Markup, breakable, join, tag
from sublayer.reports.pareto import PREDICTED, Front, ParetoAxis, Point
from sublayer.reports.section import Column, Section, command, facts, folded, heading, legend, model_cell, paragraph
from sublayer.reports.section import table as html_table
from sublayer.reports.sections import runs as run_pieces
from sublayer.reports.sections import search_charts as charts
from sublayer.reports.sections.asked import again
from sublayer.reports.sections.front import (
    Candidate,
    budget_point,
    candidates,
    disturbed,
    errors,
    scale_of,
    sound_value,
)
from sublayer.reports.sections.source import Source
from sublayer.reports.units import Scale, amount, percent, scale, score, signed
from sublayer.runs.wording import plural

SHOWN = 24
"""Rows of the front's table before the rest is folded away."""


def section(source: Source) -> Section:
    result, asked = KINDS["search"]
    front, runs = read(source.path / result, SearchResult), source.runs
    objectives = [
        ParetoAxis(one.name, one.direction == "maximize", scale_of(front, one.name, one.unit))
        for one in front.objectives
    ]
    models = candidates(source, front)
    tried = trials.read(source.path, len(objectives))
    body: list[Markup | Figure] = []
    if front.disturbed:
        rough = ", and so is the limit of latency" if front.budget else ""
        words = f"The readings that predictions are made from were disturbed: {front.disturbed}"
        body.append(paragraph(f"{words}. Predicted latencies are rough{rough}."))
    if points := _points(models, objectives):
        count, budget = front.trials or len(tried), budget_point(front, objectives)
        known = {one.number: one.values for one in points}
        others = [one for one in tried if one.number not in known]
        anew = any(one.values != known.get(one.number, one.values) for one in tried)
        unsure = sum(bool(disturbed(one.of)) for one in models)
        shown = Front(objectives, points, others, count, anew, front.limits, str(source.path), budget, unsure)
        body += pareto.figures(shown)
    if models:
        body += [heading("The front"), legend(one.layout for one in front.front)]
        body += [*_front_table(front, objectives, models), *_next(models)]
    body += [figure for name in PREDICTED if (figure := charts.predicted(front, models, name))]
    body += [charts.hypervolume(front)] if len(front.hypervolumes) > 1 else []
    body += [figure for figure in [charts.trained(models, objectives)] if figure]
    if runs:
        body += [heading("Trained models of this search"), *run_pieces.pieces(runs, source.tokens)]
    if front.device or front.setting:
        body.append(folded("Device and setting", facts({**(front.device or {}), **(front.setting or {})})))
    if front.predictor:
        body.append(folded("The predictor of latency and memory", facts(_predictor(front.predictor))))
    body += [*again("search", source.path, read_asked(source.path / asked)), *run_pieces.repeats(runs)]
    drawing = [(one.name, one.layout, one.of.config or None) for one in models]
    return Section("Search", str(source.path), _headline(front, objectives, models), body, drawing)


def _points(models: Sequence[Candidate], objectives: Sequence[ParetoAxis]) -> list[Point]:
    """Models that have a finite value for every objective; none where there is nothing to draw against."""
    made = []
    for one in models if len(objectives) > 1 else ():
        values = [one.of.values.get(objective.name) for objective in objectives]
        known = tuple(value for value in values if value is not None and math.isfinite(value))
        readings = tuple(sound_value(one.of, objective.name) for objective in objectives) if one.of.measured else ()
        if len(known) == len(objectives):
            made.append(Point(one.number, one.layout, known, one.name, one.spec, readings, one.above, one.trained))
    return made


def _next(models: Sequence[Candidate]) -> list[Markup]:
    """Commands that take a candidate by its name."""
    one = next((one for one in models if one.trained or "knee" in one.picks), models[0])
    words = "A candidate's name stands for its model wherever a paper's name does; so do #best, #fastest and #knee:"
    train = command("sublayer", "train", one.name, "--data", "book.txt", "--out", f"runs/candidate-{one.number}")
    return [paragraph(words), command("sublayer", "show", one.name), train]


def _predictor(errors: PredictorErrors) -> dict[str, str]:
    known = {"latency": errors.latency, "memory": errors.memory}
    made = {f"median error in {name}": f"{100 * share:.1f} %" for name, share in known.items() if share is not None}
    return {"models of the front that were measured": f"{errors.models:,}", **made}


def _headline(front: SearchResult, objectives: Sequence[ParetoAxis], models: Sequence[Candidate]) -> str:
    names = [one.scale.title for one in objectives]
    named = " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)
    words = f"{plural(front.trials, 'model')} tried for {named}{_within(front)}: {len(front.front)} on the front"
    complete = [
        one for one in front.front if all(one.values.get(objective.name) is not None for objective in objectives)
    ]
    if len(complete) > 1:
        order = sorted(complete, key=lambda one: one.values[objectives[0].name] or 0.0)
        words += f", from {_amounts(order[0], objectives, named=True)} to {_amounts(order[-1], objectives)}"
    if found := [abs(one) for one in errors(front, "latency")]:
        off = f"{median(found):.1f} % in the median, {max(found):.1f} % at most"
        words += f". Predicted latency is off by {off}, on {plural(len(found), 'measured model')}"
    if over := [one.name for one in models if one.above]:
        words += f". {plural(len(over), 'model')} turned out above a limit when measured"
    if trained := [one for one in models if one.trained]:
        words += ". Trained: " + "; ".join(f"{one.name} ({one.trained})" for one in trained[:3])
        words += f" and {len(trained) - 3} more" if len(trained) > 3 else ""
    return words + "."


def _within(front: SearchResult) -> str:
    """`, with latency at most 10.8 ms`."""
    limits = [f"{scale(name, []).title} at most {amount(name, most)}" for name, most in front.limits.items()]
    return f", with {' and '.join(limits)}" if limits else ""


def _amounts(one: FrontModel, objectives: Sequence[ParetoAxis], named: bool = False) -> str:
    """1.05 M decoder parameters at 1.66 ms and 8.79 MB."""
    first, *rest = [objective.scale.words(one.values[objective.name]) for objective in objectives]
    first += f" {objectives[0].scale.title}" if named else ""
    return f"{first} at {' and '.join(rest)}" if rest else first


def _front_table(front: SearchResult, objectives: Sequence[ParetoAxis], models: Sequence[Candidate]) -> list[Markup]:
    """By the first objective. Of a long front, measured models or some evenly spaced are shown, the rest folded."""
    first = objectives[0].name
    members = sorted(models, key=lambda one: (one.of.values.get(first) or 0.0, one.number))
    whole = _table(front, objectives, members)
    if len(members) <= SHOWN:
        return [whole]
    step = (len(members) - 1) / (SHOWN - 1)
    evenly = [members[round(index * step)] for index in range(SHOWN)]
    some = [one for one in members if one.of.measured or one.trained] or evenly
    return [_table(front, objectives, some), folded(f"All {len(members)} models of the front", whole)]


def _table(front: SearchResult, objectives: Sequence[ParetoAxis], members: Sequence[Candidate]) -> Markup:
    columns = [
        Column("name", [_name(one) for one in members], number=False),
        Column("model", [model_cell(one.layout, one.of.config or None, one.spec) for one in members], number=False),
    ]
    for name in dict.fromkeys([*(one.name for one in objectives), "params", *PREDICTED]):
        known = scale_of(front, name, next((one.unit for one in front.objectives if one.name == name), ""))
        values = [one.of.values.get(name) for one in members]
        if name not in PREDICTED:
            columns.append(Column(known.label, [known.number(value) for value in values]))
            continue
        found = [one.of.measured_value(name) for one in members]
        columns.append(Column(known.called("predicted"), [known.number(value) for value in values]))
        columns.append(
            Column(
                known.called("measured"),
                [_reading(one, known, *pair) for one, *pair in zip(members, values, found, strict=True)],
            )
        )
    if front.limits:
        columns.append(Column("measured within the limits", [_verdict(one) for one in members], number=False))
    columns += [
        Column(scale(name, []).label, [score(one.best.get(name)) for one in members]) for name in run_pieces.SCORES
    ]
    columns.append(Column("trained", [one.elsewhere for one in members], number=False))
    words = f"{plural(len(members), 'model')} of the front, by {objectives[0].scale.title}"
    below = "; below a measurement: how far the prediction was off" if any(one.of.measured for one in members) else ""
    return html_table(columns, words + below)


def _name(one: Candidate) -> Markup:
    """To paste, with the words that stand for its number below it."""
    words = [tag("small", ", ".join(f"#{word}" for word in one.picks))] if one.picks else []
    return join(tag("code", breakable(one.name), title=one.spec), words)


def _reading(one: Candidate, known: Scale, predicted: float | None, found: float | None) -> str:
    """A measurement, and below it the error of its prediction, or that it was disturbed."""
    off = percent(predicted, found)
    if off is None:
        return known.number(found)
    why = disturbed(one.of, known.name)
    below = tag("small", "disturbed", title=why) if why else tag("small", signed(off))
    raw = one.of.measured.raw if known.name == "latency" and one.of.measured else None
    clock = f"{amount(known.name, raw)} as the clock showed it" if raw is not None else None
    return join(tag("span", known.number(found), title=clock), below)


def _verdict(one: Candidate) -> str:
    if one.of.measured is None:
        return "—"
    return "unknown, disturbed" if disturbed(one.of) else "no" if one.above else "yes"
