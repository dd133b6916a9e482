"""Layouts as rows of blocks, one block a sublayer: as wide as its inner size, its heads or whatever varies."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from sublayer.nn import layout as layouts
from sublayer.reports.charts import Entry
from sublayer.reports.markup import Markup, join, tag

PARTS = {
    "s": ("self-attention", "#1789a6", "#ffffff"),
    "f": ("feed-forward", "#e0a82e", "#2b2000"),
    "c": ("cross-attention", "#b5488f", "#ffffff"),
}
"""Letter → what it stands for, the block's colour, the letter's: legible on white and on black."""
NOTHING = ("identity", "#8a94a055", "#717a85")
OTHER = ("another part", "#5c8a3a", "#ffffff")
WIDE, NARROW, GAP, TALL = 11.0, 4.0, 2.0, 16
MOST = 512
"""Blocks of a layout; a longer one is shown as text only."""
LONG = 24
"""Blocks of a line in a cell, which must fit on a telephone; the rest follows below."""
NAMED = 24
"""Characters of a name beside its blocks in a drawing; longer names stand above theirs."""
SHAPES = {
    "square": "M1 1h10v10h-10z",
    "circle": "M1 6a5 5 0 1 0 10 0a5 5 0 1 0 -10 0z",
    "ring": "M2 6a4 4 0 1 0 8 0a4 4 0 1 0 -8 0z",
    "diamond": "M6 0l5 6l-5 6l-5 -6z",
    "triangle-up": "M6 1l5.5 10h-11z",
    "triangle-down": "M6 11l5.5 -10h-11z",
    "cross": "M4 1h4v3h3v4h-3v3h-4v-3h-3v-4h3z",
    "line": "M0 6h12",
    "dashes": "M0 6h12",
}
"""Outlines of the marks of a key, in a box of 12."""
SANS = "system-ui, -apple-system, 'Segoe UI', Helvetica, Arial, sans-serif"
GREY = "#717a85"


@dataclass(frozen=True)
class Block:
    letter: str
    size: float | None
    """Its varied field, if one varies."""
    share: float
    """Of the largest of its letter."""

    @property
    def width(self) -> float:
        return round(max(NARROW, WIDE * self.share), 1)


def rows(layout: str, config: dict[str, Any] | None = None) -> list[tuple[str, list[Block]]]:
    """Each stack's name and blocks, from a model's config as it was dumped; from the layout alone if there is none."""
    stacks = _stacks(config or {}) or [("", {"layout": layout})]
    return [(name, _blocks(stack)) for name, stack in stacks]


def strip(layout: str, config: dict[str, Any] | None = None) -> Markup:
    """One model's stacks for a cell of a table; nothing where the layout cannot be read."""
    try:
        return join(_svg(f"{name} {layout}".strip(), row) for name, row in rows(layout, config))
    except (ValueError, TypeError, AttributeError):
        return Markup("")


def word(letters_: str) -> Markup:
    """A word of a supernet, one block per slot; a pale one for identity (-)."""
    return _svg(letters_, [Block(letter, None, 1.0) for letter in letters_[:MOST]])


def picture(models: Sequence[tuple[str, str, dict[str, Any] | None]]) -> str:
    """Several models (label, layout, config) as one drawing for a file."""
    above = any(len(label) > NAMED for label, _, _ in models)
    pieces, x, y, wide = [], 12.0, 48.0, 420.0
    for one in legend(letters(layout for _, layout, _ in models)):
        pieces += [_rect(x, 16, 11, 11, one.colour), _text(one.label, x + 16, 26)]
        x += 130
    for label, layout, config in models:
        try:
            drawn = rows(layout, config)
        except (ValueError, TypeError, AttributeError):
            continue
        for name, row in drawn:
            title = f"{label} {name}".strip()
            inside, width = _draw(row, 12.0 if above else 190.0, y + (18 if above else 0))
            pieces += [_text(title, 12, y + 12), *inside]
            wide = max(wide, (12 if above else 190) + width + 12, 24 + 7 * len(title) if above else 0)
            y += TALL + (28 if above else 8)
    head = {"width": f"{wide:g}", "height": f"{y + 4:g}", "viewBox": f"0 0 {wide:g} {y + 4:g}", "fill": GREY}
    return tag("svg", pieces, xmlns="http://www.w3.org/2000/svg", font_family=SANS, font_size=12, **head)


def legend(used: Iterable[str]) -> list[Entry]:
    """What the colours of some letters stand for."""
    return list(dict.fromkeys(Entry(*PARTS.get(letter, OTHER)[:2]) for letter in used))


def mark(shape: str, colour: str) -> Markup:
    """A mark of a chart, for its key."""
    drawn = SHAPES.get(shape, SHAPES["square"])
    hollow = shape in ("ring", "line", "dashes")
    ink = {"fill": "none", "stroke": colour, "stroke_width": 2} if hollow else {"fill": colour}
    dashes = {"stroke_dasharray": "3 2"} if shape == "dashes" else {}
    return tag("svg", tag("path", d=drawn, **ink, **dashes), class_="mark", viewBox="0 0 12 12", aria_hidden="true")


def letters(layouts_: Iterable[str]) -> list[str]:
    """Those that some layouts use, in the legend's order."""
    used = {mark for layout in layouts_ for mark in layout if mark.isalpha() and mark != "x"}
    return [letter for letter in PARTS if letter in used] + (["?"] if used - PARTS.keys() else [])


def _stacks(config: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    """Whatever in a model's config has a layout; the only one goes without a name."""
    found = [(key, one) for key, one in config.items() if isinstance(one, dict) and isinstance(one.get("layout"), str)]
    return [("", found[0][1])] if len(found) == 1 else found


def _blocks(stack: dict[str, Any]) -> list[Block]:
    word = layouts.expand(stack["layout"])
    if len(word) > MOST:
        raise ValueError(f"{len(word)} blocks are too many to draw; {MOST} are the most")
    sizes = _sizes(stack.get("vary") or {})
    seen: Counter[str] = Counter()
    row = []
    for letter in word:
        values = sizes.get(letter, [])
        size = values[seen[letter]] if seen[letter] < len(values) else None
        row.append(Block(letter, size, 1.0 if size is None else size / max(values)))
        seen[letter] += 1
    return row


def _sizes(vary: dict[str, Any]) -> dict[str, list[float]]:
    """Letter → its sizes by occurrence: the inner size before others."""
    sizes: dict[str, list[float]] = {}
    for key in sorted(vary, key=lambda key: not key.endswith(".inner")):
        values = vary[key]
        if isinstance(values, list) and values and all(isinstance(one, int | float) and one > 0 for one in values):
            sizes.setdefault(key.split(".")[0], values)
    return sizes


def _draw(row: list[Block], x: float, y: float) -> tuple[list[Markup], float]:
    """The blocks, and how wide they are together."""
    pieces, left = [], x
    for block in row:
        words, fill, _ = NOTHING if block.letter == "-" else PARTS.get(block.letter, OTHER)
        title = f"{block.letter}: {words}" + ("" if block.size is None else f", {block.size:g}")
        pieces.append(_rect(left, y, block.width, TALL, fill, title))
        left = round(left + block.width + GAP, 1)
    return pieces, left - x


def _svg(label: str, row: list[Block]) -> Markup:
    lines = [row[at : at + LONG] for at in range(0, len(row), LONG)]
    drawn = [_draw(line, 0.0, (TALL + 3.0) * at) for at, line in enumerate(lines)]
    width, height = max(width for _, width in drawn), (TALL + 3) * len(lines) - 3
    size = {"width": f"{width:g}", "height": height, "viewBox": f"0 0 {width:g} {height}"}
    pieces = (piece for pieces, _ in drawn for piece in pieces)
    return tag("svg", pieces, class_="strip", role="img", aria_label=f"layout {label}", **size)


def _rect(x: float, y: float, width: float, height: float, fill: str, title: str = "") -> Markup:
    inside = tag("title", title) if title else Markup("")
    return tag("rect", inside, x=f"{x:g}", y=f"{y:g}", width=f"{width:g}", height=f"{height:g}", rx=3, fill=fill)


def _text(words: str, x: float, y: float) -> Markup:
    return tag("text", words, x=f"{x:g}", y=f"{y:g}")
