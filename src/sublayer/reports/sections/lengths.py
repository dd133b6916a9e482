"""Comparisons by length: time, memory and loss of each variant over the length, with the powers that fit them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from sublayer.comparison.length_table import FITTED, LengthPoint, LengthRow, LengthTable, figure
from sublayer.reports.charts import Entry, Figure, Rows, altair, by_name, colours, look, shape_by_name
from sublayer.reports.charts import table as rows_of
from sublayer.reports.folders import KINDS
from sublayer.reports.markup import Markup
from sublayer.reports.section import Column, Section, command, facts, folded, heading, model_cell, paragraph, table
from sublayer.reports.sections.asked import again
from sublayer.reports.sections.source import Source
from sublayer.reports.spec import specs
from sublayer.reports.units import DIGITS, SCORE, Scale, amount, minus, scale, spreads
from sublayer.runs.wording import plural

DRAWN = ("latency", "memory", "step_memory", "loss")
"""Figures of a point that are drawn over the length."""
TITLES = {
    "latency": "time of a pass",
    "memory": "memory of a pass",
    "step_memory": "memory of training",
    "token_seconds": "training time a token",
}
K = 1024
ROOM, FAR = 1.2, 2.0
"""Of a logarithmic axis: how far it goes beyond the values, and at least from their middle, as factors."""


def section(source: Source) -> Section:
    found = LengthTable.read(source.path / KINDS["lengths"][0])
    variants = colours([row.name for row in found.rows])
    body: list[Markup | Figure] = [one for name in DRAWN if (one := _figure(found, name, variants))]
    body += [_powers(found), heading("Every length"), _table(found)]
    reports = [
        f"{source.path}/{found.folders[str(length)]}" for length in found.lengths if str(length) in found.folders
    ]
    if reports:
        words = "Each length is a comparison of its own, with its runs and their curves:"
        body += [paragraph(words), command("sublayer", "report", *reports)]
    if found.device:
        body.append(folded("Device", facts(found.device)))
    body += again("compare", source.path, found.asked)
    models = [(row.name, row.layout, row.config) for row in found.rows]
    return Section("Lengths", str(source.path), _headline(found), body, models)


def _headline(found: LengthTable) -> str:
    """How time grows, or how many lengths there are."""
    span = f"{found.lengths[0]:,} to {found.lengths[-1]:,} tokens" if found.lengths else "no length yet"
    words = f"{plural(len(found.rows), 'variant')} at {plural(len(found.lengths), 'length')}, {span}"
    powers = [(row.exponents.latency, row.name) for row in found.rows if row.exponents.latency is not None]
    if not powers:
        return f"{words}."
    (least, low), (most, high) = min(powers), max(powers)
    if len(powers) < 2:
        return f"{words}. The time of a pass grows as length^{_power(least)} with {low}."
    return f"{words}. The time of a pass grows as length^{_power(least)} with {low}, length^{_power(most)} with {high}."


def _figure(found: LengthTable, name: str, variants: Sequence[Entry]) -> Figure | None:
    """One figure of all variants over the length; None where nobody has it."""
    known = _scale(found, name)
    rows = [line for row in found.rows for line in _line(row, name, known)]
    if not rows:
        return None
    alt = altair()
    there = {line["of"] for line in rows}
    labelled = zip(found.rows, variants, strict=True)
    key = [Entry(_label(row, name), one.colour, one.shape) for row, one in labelled if _label(row, name) in there]
    label = known.label
    up = _up(name, [line["y"] for line in rows])
    y = alt.Y("y:Q", title=label, **up)
    tips = [
        alt.Tooltip("name:N", title="variant"),
        alt.Tooltip("x:Q", title="length", format=",d"),
        alt.Tooltip("y:Q", title=label, format=SCORE if name == "loss" else DIGITS),
    ]
    base = alt.Chart(rows_of(rows)).encode(x=_across(found.lengths), color=by_name("of", key), tooltip=tips)
    layers = [base.mark_line(strokeWidth=2).encode(y=y)]
    if any(line["low"] is not None for line in rows):
        bars = base.transform_filter("isValid(datum.low)").mark_rule(strokeWidth=1.5)
        layers.append(bars.encode(y=alt.Y("low:Q", title=label, **up), y2="high:Q"))
    layers.append(base.mark_point(filled=True, size=60, opacity=1).encode(y=y, shape=shape_by_name("of", key)))
    called, title = f"lengths-{name}".replace("_", "-"), known.title
    return Figure(
        called, f"{title[0].upper()}{title[1:]} over the length", _note(found, name), look(alt.layer(*layers)), key
    )


def _line(row: LengthRow, name: str, known: Scale) -> Rows:
    """Points of one variant, as far as they have the figure."""
    there = [(point, value) for point in row.points if (value := _value(point, name)) is not None]
    return [
        {"name": row.name, "of": _label(row, name), "x": point.length, "y": known.shown(value)}
        | {"low": known.shown(low), "high": known.shown(high)}
        for point, value in there
        for low, high in [_ends(point, name)]
    ]


def _ends(point: LengthPoint, name: str) -> tuple[float | None, float | None]:
    found = {"loss": point.loss, "latency": point.latency}.get(name)
    return (found.low, found.high) if found else (None, None)


def _label(row: LengthRow, name: str) -> str:
    """`dense, L^1.93`: with the power that fits."""
    power = getattr(row.exponents, name, None)
    return row.name if power is None else f"{row.name}, L^{_power(power)}"


def _note(found: LengthTable, name: str) -> str:
    words = {
        "latency": "One row of the length is read and scored. Bars: 95 % intervals.",
        "memory": "At most in use at once while one row of the length is read and scored.",
        "step_memory": f"A step reads about {found.step_tokens:,} tokens at every length. Flat: memory depends on the "
        "tokens of a step, not on the length of its rows.",
        "loss": "On the validation text, read in rows of the length, after training on rows of the length.",
    }[name]
    if name == "loss" and any(point.loss and point.loss.high for row in found.rows for point in row.points):
        words += " Bars: 95 % intervals over seeds."
    fitted = any(getattr(row.exponents, name, None) is not None for row in found.rows)
    return f"{words} L^2: the power of the length that fits best." if fitted else words


def _across(lengths: Sequence[int]) -> Any:
    alt = altair()
    short = f"datum.value % {K} == 0 ? datum.value / {K} + 'k' : format(datum.value, ',')"
    title = "length in tokens" + (f" (k = {K:,})" if any(length % K == 0 for length in lengths) else "")
    ticks = alt.Axis(values=list(lengths), labelExpr=short)
    return alt.X("x:Q", title=title, scale=alt.Scale(type="log", base=2, nice=False, padding=16), axis=ticks)


def _up(name: str, values: Sequence[float]) -> dict[str, Any]:
    """Loss on a plain scale; others on a logarithmic one, with more ticks the fewer powers of ten it spans."""
    alt = altair()
    if name == "loss":
        return {"scale": alt.Scale(zero=False, nice=True, padding=12)}
    middle = math.sqrt(min(values) * max(values))
    low, high = min(min(values) / ROOM, middle / FAR), max(max(values) * ROOM, middle * FAR)
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    steps = (1, 1.5, 2, 3, 5, 7) if high < 10 * low else (1, 2, 5) if high < 1000 * low else (1,)
    ticks = [step * 10.0**decade for decade in decades for step in steps if low <= step * 10.0**decade <= high]
    scale_ = alt.Scale(type="log", domain=[float(f"{low:.4g}"), float(f"{high:.4g}")], nice=False)
    return {"scale": scale_, "axis": alt.Axis(values=ticks, format=",~g")}


def _powers(found: LengthTable) -> Markup:
    """A row for each variant: its model and its powers."""
    lines = specs([row.config for row in found.rows])
    models = [model_cell(row.layout, row.config, line) for row, line in zip(found.rows, lines, strict=True)]
    params = scale("params", [row.params for row in found.rows])
    fitted = [(name, [getattr(row.exponents, name) for row in found.rows]) for name in FITTED]
    columns = [
        Column("variant", [row.name for row in found.rows], number=False),
        Column("model", models, number=False),
        Column(params.label, [params.number(row.params) for row in found.rows]),
        *(Column(TITLES[name], ["—" if one is None else _power(one) for one in powers]) for name, powers in fitted),
    ]
    words = "Powers of the length that fit best, by least squares on logarithms over all measured lengths: 2 is "
    return table(columns, f"{words}quadratic, 1 linear, 0 constant. Small lengths and fixed costs make them smaller.")


def _table(found: LengthTable) -> Markup:
    """A row for each variant at each length."""
    pairs = [(row, point) for row in found.rows for point in row.points]
    points = [point for _, point in pairs]
    columns = [
        Column("variant", [row.name for row, _ in pairs], number=False),
        Column("length", [f"{point.length:,}" for point in points]),
        Column("rows a step", [f"{point.rows:,}" for point in points]),
        Column(_scale(found, "loss").label, spreads([point.loss for point in points])),
        Column("test loss (nats per token)", spreads([point.test_loss for point in points])),
    ]
    columns += [
        Column(title, [_amount(name, _value(point, name)) for point in points]) for name, title in TITLES.items()
    ]
    return table(columns, f"A training step reads about {found.step_tokens:,} tokens at every length.")


def _amount(name: str, value: float | None) -> str:
    """In a unit of its own: the figures of a column differ by powers of ten."""
    return "—" if value is None else amount("latency" if name == "token_seconds" else name, value)


def _scale(found: LengthTable, name: str) -> Scale:
    values = [_value(point, name) for row in found.rows for point in row.points]
    if name == "loss":
        return scale(found.metric, values)
    return replace(scale(name, values), title=TITLES[name])


def _value(point: LengthPoint, name: str) -> float | None:
    """A finite number above 0, or None."""
    value = figure(point, name)
    return value if value is not None and math.isfinite(value) and value > 0 else None


def _power(value: float) -> str:
    return minus(f"{value:z.2f}")
