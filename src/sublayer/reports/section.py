"""A section of a report: one folder in words, tables and figures."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from sublayer.reports import blocks
from sublayer.reports.charts import Entry, Figure
from sublayer.reports.markup import Markup, join, tag
from sublayer.reports.spec import cut
from sublayer.reports.units import fact


@dataclass(frozen=True)
class Section:
    kind: str
    """As in the title: search, comparison, …"""
    folder: str
    lead: str
    """One or two plain sentences: the finding."""
    body: Sequence[Markup | Figure]
    drawing: Sequence[tuple[str, str, dict[str, Any] | None]] = field(default=())
    """Models whose layouts may be drawn into a file: label, layout, config."""

    @property
    def title(self) -> str:
        return f"{self.kind} {self.folder}"

    @property
    def figures(self) -> list[Figure]:
        return [piece for piece in self.body if isinstance(piece, Figure)]


BLANK = ("", "—")


@dataclass(frozen=True)
class Column:
    title: str
    cells: Sequence[str]
    number: bool = True

    @property
    def blank(self) -> bool:
        return all(cell in BLANK for cell in self.cells)

    @property
    def kind(self) -> str | None:
        return "number" if self.number else None


FEW, SOME = 4, 8
"""Columns up to which a table fits on a telephone, and on half a screen; narrower, each row becomes a list."""


def table(columns: Sequence[Column], caption: str) -> Markup:
    """A table under a caption that wraps; where it does not fit, a row becomes a list of its cells with their titles.

    Columns without a figure are left out.
    """
    shown = [column for column in columns if not column.blank]
    head = tag("tr", (tag("th", column.title, scope="col", class_=column.kind) for column in shown))
    rows = zip(*(column.cells for column in shown), strict=True)
    body = (tag("tr", (_cell(column, cell) for column, cell in zip(shown, row, strict=True))) for row in rows)
    size = "few" if len(shown) <= FEW else "some" if len(shown) <= SOME else "many"
    inside = tag("table", tag("thead", head), tag("tbody", body), aria_label=caption, class_=size)
    box = tag("div", inside, class_="scroll", tabindex=0, role="region", aria_label=caption)
    return join(tag("p", caption, class_="caption"), box)


def _cell(column: Column, cell: str) -> Markup:
    kinds = [column.kind, "blank" if cell in BLANK else None]
    return tag("td", cell, class_=" ".join(filter(None, kinds)) or None, data_label=column.title)


def model_cell(layout: str, config: dict[str, Any] | None, spec: str = "") -> Markup:
    """A layout as blocks, and the model as it is typed; all of it on hovering."""
    line = spec or layout
    return join(blocks.strip(layout, config), tag("code", cut(line), title=line))


def legend(layouts: Iterable[str]) -> Markup:
    """What the blocks' colours stand for."""
    return key(blocks.legend(blocks.letters(layouts)))


def key(entries: Sequence[Entry]) -> Markup:
    """Marks and their meaning, as a list that wraps."""
    return tag("ul", (tag("li", blocks.mark(one.shape, one.colour), one.label) for one in entries), class_="key")


def heading(words: str) -> Markup:
    return tag("h3", words)


def paragraph(*words: str) -> Markup:
    return tag("p", *words)


def folded(title: str, *inside: str) -> Markup:
    """Details that are hidden until opened, and not printed."""
    return tag("details", tag("summary", title), *inside)


def facts(data: dict[str, Any]) -> Markup:
    """Names and values, rounded; nested ones as JSON."""
    pairs = (join(tag("dt", str(name).replace("_", " ")), tag("dd", plain(value))) for name, value in data.items())
    return tag("dl", pairs)


def listing(data: Any) -> Markup:
    """JSON as it would be in a file."""
    return tag("pre", json.dumps(data, indent=2, ensure_ascii=False))


def command(*words: str) -> Markup:
    """A command, quoted for a shell where needed."""
    import shlex

    return tag("pre", tag("code", " ".join(shlex.quote(word) for word in words)), class_="command")


def plain(value: Any) -> str:
    """A value as people read it."""
    if value is None:
        return "—"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int | float):
        return fact(value)
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
