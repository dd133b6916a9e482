"""Means over seeds with their intervals, a row for each variant."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sublayer.reports.charts import ACCENT, GREY, PALETTE, Figure, altair, look
from sublayer.reports.charts import table as rows_of
from sublayer.reports.rows import Row, height, labels, rows, vertical
from sublayer.reports.units import DIGITS
from sublayer.runs.wording import plural


@dataclass(frozen=True)
class Line:
    name: str
    mean: float | None
    low: float | None = None
    high: float | None = None
    values: Sequence[float | None] = ()
    """By seed."""
    seeds: Sequence[int | None] = ()
    spec: str = ""
    """The model in a line, for the tooltip."""
    paper: float | None = None
    """The paper's figure, if known."""
    colour: str = ACCENT


def figure(name: str, title: str, label: str, lines: Sequence[Line], unit: str = "") -> Figure:
    """Dots on bars, in the order given; a diamond where a paper has a figure."""
    alt = altair()
    shown = [line for line in lines if line.mean is not None]
    made = rows([line.name for line in shown])
    data = [_row(line, row) for line, row in zip(shown, made, strict=True)]
    across, y = _across(alt, label), vertical("y", made)
    tips = [alt.Tooltip("name:N", title="variant"), *([alt.Tooltip("spec:N", title="model")] if _any(shown) else [])]
    ends = ("mean", "low", "high") if any(line.low is not None for line in shown) else ("mean",)
    tips += [alt.Tooltip(f"{one}:Q", title=one, format=DIGITS) for one in ends]
    colour = alt.Color("colour:N", scale=None)
    points = alt.Chart(rows_of(data)).mark_point(filled=True, size=90, opacity=1)
    whole = alt.Chart(rows_of([row for row in data if row["low"] is not None and row["high"] is not None]))
    bars = whole.mark_rule(strokeWidth=2).encode(x=across("low"), x2="high:Q", y=y, color=colour)
    layers = [labels(made), bars, _seeds(shown, made, across, unit)]
    layers.append(points.encode(x=across("mean"), y=y, color=colour, tooltip=tips))
    papers = [
        {"name": line.name, "x": line.paper, "y": row.middle}
        for line, row in zip(shown, made, strict=True)
        if line.paper is not None
    ]
    if papers:
        tips = [alt.Tooltip("name:N", title="variant"), alt.Tooltip("x:Q", title="paper", format=DIGITS)]
        diamonds = alt.Chart(rows_of(papers)).mark_point(shape="diamond", size=110, color=PALETTE[1], opacity=1)
        layers.append(diamonds.encode(x=across("x"), y=y, tooltip=tips))
    return Figure(name, title, _note(shown, bool(papers)), look(alt.layer(*layers), height(made)))


def _row(line: Line, row: Row) -> dict[str, Any]:
    spec = {"spec": line.spec} if line.spec else {}
    ends = {"mean": line.mean, "low": line.low, "high": line.high}
    return {"name": line.name, **spec, **ends, "y": row.middle, "colour": line.colour}


def _note(shown: Sequence[Line], papers: bool) -> str:
    """What is drawn, as far as there is any of it."""
    most = max((len(line.values) for line in shown), default=0)
    words = f"Dot: mean over {plural(most, 'seed')}." if most > 1 else "Dot: the only seed."
    if any(line.low is not None for line in shown):
        words += " Bar: its 95 % interval. Ticks: the seeds. Where bars overlap, the order is open."
    return f"{words} Diamond: the paper's." if papers else words


def _any(shown: Sequence[Line]) -> bool:
    return any(line.spec for line in shown)


def _across(alt: Any, label: str) -> Any:
    scale = alt.Scale(zero=False, nice=True, padding=12)
    return lambda field: alt.X(f"{field}:Q", title=label, scale=scale)


def _seeds(shown: Sequence[Line], made: Sequence[Row], across: Any, unit: str) -> Any:
    alt, ticks = altair(), []
    for line, row in zip(shown, made, strict=True):
        seeds = [*line.seeds, *[None] * len(line.values)]
        ticks += [
            {"name": line.name, "x": x, "y": row.middle, "seed": seed}
            for x, seed in zip(line.values, seeds, strict=False)
        ]
    tips = [
        alt.Tooltip("name:N", title="variant"),
        alt.Tooltip("seed:N", title="seed"),
        alt.Tooltip("x:Q", title=unit or "value", format=DIGITS),
    ]
    drawn = alt.Chart(rows_of(ticks)).mark_tick(color=GREY, opacity=0.7, thickness=1.5, size=12, orient="vertical")
    return drawn.encode(x=across("x"), y=vertical("y", made), tooltip=tips)
