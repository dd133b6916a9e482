"""Shared by charts: a theme that is legible on white and on black, and the figure that puts one into a page."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from sublayer.reports.units import Scale

ACCENT, GREY, PALE = "#1789a6", "#717a85", "#8a94a0"
PALETTE = (ACCENT, "#d9942b", "#b5488f", "#5c8a3a", "#c8553d", "#5a73d6", "#8d6e4f", "#3f9c8a", "#a3679e", GREY)
SHAPES = ("circle", "square", "triangle-up", "diamond", "cross", "triangle-down")
"""Of names beyond those that have a colour of their own."""
WARNING = "#c8553d"
RAMP = ("#4fb3cf", "#7a6fd0", "#c2478f")
"""From little to much."""
FONT = "system-ui, -apple-system, 'Segoe UI', Helvetica, Arial, sans-serif"
WIDTH, HEIGHT, NARROW = 640, 320, 340
"""Pixels: of a chart in a file of its own, and across a telephone."""
DECADES = 30
"""An axis whose values span more than so many times its least is logarithmic."""

Rows = list[dict[str, Any]]
T = TypeVar("T")


@dataclass(frozen=True)
class Entry:
    """A line of a key: what a mark of the chart means."""

    label: str
    colour: str
    shape: str = "square"
    """One of Vega's; or `ring`, `line` or `dashes`."""


@dataclass(frozen=True)
class Figure:
    """A chart with its name, what it shows, and what its marks mean."""

    name: str
    title: str
    note: str
    chart: Any
    """Altair's."""
    key: Sequence[Entry] = field(default=())
    """A page writes it beside the chart, where it can wrap."""
    has_legend: bool = True
    """Whether the chart's own legend has what the key has; a page leaves the legend out, a picture the key."""


def altair() -> Any:
    try:
        import altair
        import vl_convert  # noqa: F401
    except ImportError:
        raise ValueError("a report needs Altair and vl-convert; pip install 'sublayer[report]'") from None
    return altair


def table(rows: Rows) -> Any:
    """Rows for a chart; the same rows in several charts of a page are written once."""
    return altair().InlineData(values=rows)


def look(chart: Any, height: int = HEIGHT) -> Any:
    """Size and style of a chart that stands alone."""
    quiet = {"labelColor": GREY, "titleColor": GREY, "labelFontSize": 12, "titleFontSize": 12}
    return (
        chart.properties(width=WIDTH, height=height)
        .configure(font=FONT, background="transparent", padding=4)
        .configure_view(stroke=None)
        .configure_axis(
            **quiet,
            titleFontWeight="normal",
            titlePadding=10,
            gridColor=PALE,
            gridOpacity=0.25,
            domainColor=PALE,
            tickColor=PALE,
            labelOverlap="greedy",
            labelLimit=160,
            tickCount=6,
        )
        .configure_axisX(titleLimit=NARROW)
        .configure_axisY(titleLimit=height)
        .configure_legend(**quiet, titleFontWeight="normal", orient="top", symbolType="circle")
    )


def axis(scale: Scale, values: Sequence[float | None], **more: Any) -> dict[str, Any]:
    """Scale and title for a quantity: from near its least to its most, logarithmic if that is far."""
    alt = altair()
    there = [value for value in values if value is not None and math.isfinite(value)]
    far = bool(there) and min(there) > 0 and max(there) > DECADES * min(there)
    kind = {"type": "log", "nice": False, "padding": 12} if far else {"type": "linear", "nice": True}
    return {"title": scale.label, "scale": alt.Scale(**{**kind, **more}, zero=False)}


def colours(names: Sequence[str]) -> list[Entry]:
    """A colour for each name, in the order given; with another shape when all colours are used."""
    many, shapes = len(PALETTE), len(SHAPES)
    return [Entry(name, PALETTE[at % many], SHAPES[at // many % shapes]) for at, name in enumerate(names)]


def by_name(field_: str, key: Sequence[Entry]) -> Any:
    """Colour by a name, as in the key."""
    alt = altair()
    scale = alt.Scale(domain=[one.label for one in key], range=[one.colour for one in key])
    legend = alt.Legend(columns=_columns(key), labelLimit=WIDTH) if len(key) > 1 else None
    return alt.Color(f"{field_}:N", title=None, scale=scale, legend=legend)


def shape_by_name(field_: str, key: Sequence[Entry]) -> Any:
    """Shape by a name, as in the key; without a legend, as the one of colours names them."""
    alt = altair()
    scale = alt.Scale(domain=[one.label for one in key], range=[one.shape for one in key])
    return alt.Shape(f"{field_}:N", scale=scale, legend=None)


def _columns(key: Sequence[Entry]) -> int:
    """As many as fit beside each other in a file of its own."""
    return max(1, min(4, WIDTH // (24 + 7 * max(len(one.label) for one in key))))


def thin(rows: Sequence[T], most: int) -> list[T]:
    """Evenly fewer rows, the first and the last among them."""
    if len(rows) <= most:
        return list(rows)
    return [rows[round(n * (len(rows) - 1) / (most - 1))] for n in range(most)]
