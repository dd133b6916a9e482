"""Means over seeds with their intervals, a line for each variant."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sublayer.reports.charts import ACCENT, GREY, PALETTE, Figure, altair, look
from sublayer.reports.charts import table as rows_of

LINE = 34
"""Pixels from row to row."""


@dataclass(frozen=True)
class Line:
    name: str
    mean: float | None
    low: float | None = None
    high: float | None = None
    values: Sequence[float | None] = ()
    """By seed."""
    seeds: Sequence[int | None] = ()
    layout: str = ""
    paper: float | None = None
    """The paper's figure, if known."""


def figure(name: str, title: str, label: str, lines: Sequence[Line], unit: str = "") -> Figure:
    """Dots on bars, in the order given; a diamond where a paper has a figure."""
    alt = altair()
    shown = [line for line in lines if line.mean is not None]
    rows = [{"name": x.name, "layout": x.layout, "mean": x.mean, "low": x.low, "high": x.high} for x in shown]
    names = list(dict.fromkeys(line.name for line in shown))
    y = alt.Y("name:N", sort=names, title=None, axis=alt.Axis(labelLimit=140, grid=False, domain=False, ticks=False))
    how = alt.Scale(zero=False, nice=True)
    tips = [alt.Tooltip("name:N", title="variant"), *_layout(shown)]
    tips += [alt.Tooltip(f"{one}:Q", title=one, format=".4~f") for one in ("mean", "low", "high")]
    base = alt.Chart(rows_of(rows))
    points = base.mark_point(filled=True, size=90, color=ACCENT, opacity=1).encode(
        x=alt.X("mean:Q", title=label, scale=how), y=y, tooltip=tips
    )
    whole = alt.Chart(rows_of([row for row in rows if row["low"] is not None and row["high"] is not None]))
    bars = whole.mark_rule(color=ACCENT, strokeWidth=2).encode(x=alt.X("low:Q", scale=how), x2="high:Q", y=y)
    layers = [bars, _seeds(shown, y, how, unit), points]
    papers = [{"name": line.name, "x": line.paper} for line in shown if line.paper is not None]
    note = "Dot: mean over seeds. Bar: its interval. Ticks: the seeds. Where bars overlap, the order is open."
    if papers:
        tips = [alt.Tooltip("name:N", title="variant"), alt.Tooltip("x:Q", title="paper", format=".4~f")]
        diamonds = alt.Chart(rows_of(papers)).mark_point(shape="diamond", size=110, color=PALETTE[1], opacity=1)
        layers.append(diamonds.encode(x=alt.X("x:Q", scale=how), y=y, tooltip=tips))
        note += " Diamond: the paper's."
    return Figure(name, title, note, look(alt.layer(*layers), LINE * max(len(names), 2)))


def _layout(shown: Sequence[Line]) -> list[object]:
    return [altair().Tooltip("layout:N", title="layout")] if any(line.layout for line in shown) else []


def _seeds(shown: Sequence[Line], y: object, how: object, unit: str) -> object:
    alt, dots = altair(), []
    for line in shown:
        seeds = [*line.seeds, *[None] * len(line.values)]
        dots += [{"name": line.name, "x": x, "seed": seed} for x, seed in zip(line.values, seeds, strict=False)]
    tips = [
        alt.Tooltip("name:N", title="variant"),
        alt.Tooltip("seed:N", title="seed"),
        alt.Tooltip("x:Q", title=unit, format=".4~f"),
    ]
    ticks = alt.Chart(rows_of(dots)).mark_tick(color=GREY, opacity=0.7, thickness=1.5, size=12)
    return ticks.encode(x=alt.X("x:Q", scale=how), y=y, tooltip=tips)
