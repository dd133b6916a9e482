"""Rows of a chart, each under its name: a long name wraps, so none is cut and none lies over another."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sublayer.reports.charts import GREY, altair, table

WRAP = 44
"""Characters of a line that fit on a telephone."""
LINE, BAR = 15, 26
"""Pixels of a line of a name, and of what is drawn below it."""


@dataclass(frozen=True)
class Row:
    name: str
    lines: tuple[str, ...]
    top: int
    """Pixels from the upper edge of the chart."""

    @property
    def middle(self) -> float:
        """Where its figures are drawn."""
        return self.top + LINE * len(self.lines) + BAR / 2 - 2

    @property
    def bottom(self) -> int:
        return self.top + LINE * len(self.lines) + BAR


def rows(names: Sequence[str]) -> list[Row]:
    """One below the other, in the order given."""
    made: list[Row] = []
    for name in names:
        lines = textwrap.wrap(name, WRAP, break_on_hyphens=False) or [" "]
        made.append(Row(name, tuple(lines), made[-1].bottom if made else 0))
    return made


def height(made: Sequence[Row]) -> int:
    return made[-1].bottom if made else BAR


def labels(made: Sequence[Row]) -> Any:
    """The names, as a layer."""
    alt = altair()
    data = [{"top": row.top, "words": "\n".join(row.lines)} for row in made]
    how = {"align": "left", "baseline": "top", "lineBreak": "\n", "lineHeight": LINE, "limit": alt.ExprRef("width")}
    text = alt.Chart(table(data)).mark_text(**how, fontSize=12, color=GREY)
    return text.encode(x=alt.value(0), y=vertical("top", made), text="words:N")


def vertical(field: str, made: Sequence[Row]) -> Any:
    """A row's height in the chart, whose unit is the pixel."""
    alt, whole = altair(), [0, height(made)]
    return alt.Y(f"{field}:Q", axis=None, scale=alt.Scale(domain=whole, range=whole, nice=False, zero=False))
