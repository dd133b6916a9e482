"""A drawing as SVG: cells of one shade that touch are one rectangle, and rectangles of one shade one path.

The colours are legible on white and on black; what is not seen stays transparent.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from textwrap import wrap

from jaxtyping import Float
from torch import Tensor

from sublayer.reports.charts import ACCENT, FONT, GREY, WARNING
from sublayer.reports.markup import Markup, tag
from sublayer.reports.patterns.cells import Cells
from sublayer.reports.patterns.drawing import Drawing
from sublayer.reports.patterns.panels import Panel, balanced

SIDE, GAP, LINE, MARGIN = 256, 32, 17, 14
"""Pixels: of a panel, between panels, of a line of text, around all."""
BASE = 12
"""From the top of a line to its baseline."""
CHARACTER = 7
"""About as wide as one."""
IN_A_ROW = 4
LEVELS = 20
"""Shades that can be told apart."""
FAINTEST = 0.2
"""Opacity of a cell of which hardly anything is seen."""

Box = tuple[int, int, int, int]


@dataclass(frozen=True, eq=False)
class Square:
    """One rectangle of cells, with the lines above it and the line below."""

    share_RC: Float[Tensor, "R C"]
    caption: Sequence[str]
    below: str
    mark: tuple[int, int] | None = None
    """Row and column of a cell to be framed."""

    @classmethod
    def of(cls, panel: Panel, found: Cells) -> Square:
        return cls(found.share_RR, panel.caption, measures(found))


def svg(drawing: Drawing) -> Markup:
    """All panels with their captions, figures below them, under a title."""
    squares = [Square.of(panel, found) for panel, found in drawing.panels]
    return grid(drawing.title, [drawing.note, *drawing.rest], squares)


def grid(title: str, notes: Sequence[str], squares: Sequence[Square], in_a_row: int = IN_A_ROW) -> Markup:
    """Squares side by side under a title."""
    across = balanced(len(squares), in_a_row)
    captions = max(len(one.caption) for one in squares)
    width = 2 * MARGIN + across * (SIDE + GAP) - GAP
    head = [line for note in notes for line in wrap(note, width // CHARACTER)]
    pieces = [text(title, MARGIN, MARGIN + BASE, bold=True)] if title else []
    y = MARGIN + LINE * len(pieces)
    pieces += [text(line, MARGIN, y + LINE * n + BASE) for n, line in enumerate(head)]
    y += LINE * len(head) + (LINE // 2 if pieces else 0)
    for first in range(0, len(squares), across):
        row = squares[first : first + across]
        for n, one in enumerate(row):
            x = MARGIN + n * (SIDE + GAP)
            above = y + LINE * (captions - len(one.caption))
            pieces += [text(line, x, above + LINE * k + BASE) for k, line in enumerate(one.caption)]
            pieces.append(square(one, x, y + LINE * captions))
            pieces.append(text(one.below, x, y + LINE * (captions + 1) + tall(one), size=12))
        y += LINE * (captions + 1) + max(map(tall, row)) + GAP
    return sheet(width, y - GAP + MARGIN, title, pieces)


def tall(one: Square) -> float:
    rows, columns = one.share_RC.shape
    return SIDE * rows / columns


def sheet(width: float, height: float, title: str, pieces: Sequence[Markup]) -> Markup:
    size = {"width": f"{width:g}", "height": f"{height:g}", "viewBox": f"0 0 {width:g} {height:g}"}
    head = {"xmlns": "http://www.w3.org/2000/svg", "font_family": FONT, "font_size": 13, "fill": GREY, "role": "img"}
    return tag("svg", tag("title", title), pieces, **size, **head)


def text(words: str, x: float, y: float, *, size: int | None = None, bold: bool = False) -> Markup:
    style = {"font_size": size, "font_weight": "bold" if bold else None}
    return tag("text", words, x=f"{x:g}", y=f"{y:g}", **style)


def square(one: Square, x: float, y: float) -> Markup:
    """The cells in a frame."""
    scale = SIDE / one.share_RC.shape[1]
    label = ", ".join([*one.caption, one.below])
    frame = rectangle(x, y, SIDE, tall(one), stroke_width=0.75)
    shades = (
        tag("path", d="".join(map(_outline, found)), fill_opacity=f"{opacity(level / LEVELS):g}")
        for level, found in sorted(boxes(one.share_RC).items())
    )
    move = f"translate({x:g} {y:g}) scale({scale:g})"
    cells = tag("g", shades, transform=move, fill=ACCENT, shape_rendering="crispEdges")
    marks = []
    if one.mark is not None:
        row, column = one.mark
        marks = [rectangle(x + scale * column, y + scale * row, scale, scale, fill=WARNING, stroke=WARNING)]
    return tag("g", tag("title", label), cells, frame, marks)


def rectangle(x: float, y: float, width: float, height: float, **style: str | float) -> Markup:
    size = {"x": f"{x:g}", "y": f"{y:g}", "width": f"{width:g}", "height": f"{height:g}"}
    return tag("rect", **size, **{"fill": "none", "stroke": GREY, **style})


def opacity(share: float) -> float:
    return round(FAINTEST + (1 - FAINTEST) * share, 3)


def boxes(share_RC: Float[Tensor, "R C"]) -> dict[int, list[Box]]:
    """Shade → its rectangles (left, top, right, bottom): runs along a row, joined with equal ones below. Any share
    above 0 has a shade."""
    found: defaultdict[int, list[Box]] = defaultdict(list)
    open_: dict[tuple[int, int, int], int] = {}
    level_RC = (share_RC * LEVELS).ceil().int().tolist()
    for row, levels in enumerate([*level_RC, []]):
        here = {run: open_.get(run, row) for run in _runs(levels)}
        for (left, right, level), top in open_.items():
            if (left, right, level) not in here:
                found[level].append((left, top, right, row))
        open_ = here
    return dict(found)


def _runs(levels: Sequence[int]) -> Iterator[tuple[int, int, int]]:
    """(first, end, level) of equal neighbours that are not 0."""
    start = 0
    for n in range(1, len(levels) + 1):
        if n == len(levels) or levels[n] != levels[start]:
            if levels[start]:
                yield start, n, levels[start]
            start = n


def _outline(box: Box) -> str:
    left, top, right, bottom = box
    return f"M{left} {top}H{right}V{bottom}H{left}z"


def measures(found: Cells) -> str:
    """`6.2 % of all pairs, 128 keys a token`: what fits below a panel."""
    return f"{100 * found.seen:.3g} % of all pairs, {found.keys:,.4g} keys a token"
