"""Layouts as rows of blocks, one block a sublayer: as wide as its inner size, its heads or whatever varies."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from sublayer.nn import layout as layouts
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
"""Blocks in a row; a longer layout is shown as text only."""
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
        return join(_svg(f"{name} {layout}".strip(), *_draw(row, 0.0, 0.0)) for name, row in rows(layout, config))
    except (ValueError, TypeError, AttributeError):
        return Markup("")


def word(letters_: str) -> Markup:
    """A word of a supernet, one block per slot; a pale one for identity (-)."""
    row = [Block(letter, None, 1.0) for letter in letters_[:MOST]]
    return _svg(letters_, *_draw(row, 0.0, 0.0))


def picture(models: Sequence[tuple[str, str, dict[str, Any] | None]]) -> str:
    """Several models (label, layout, config) as one drawing for a file."""
    pieces, x, y, wide = [], 12.0, 48.0, 420.0
    for words, fill in legend(letters(layout for _, layout, _ in models)):
        pieces += [_rect(x, 16, 11, 11, fill), _text(words, x + 16, 26)]
        x += 130
    for label, layout, config in models:
        try:
            drawn = rows(layout, config)
        except (ValueError, TypeError, AttributeError):
            continue
        for name, row in drawn:
            inside, width = _draw(row, 160.0, y)
            pieces += [_text(f"{label} {name}".strip(), 12, y + 12), *inside]
            wide, y = max(wide, 160 + width + 12), y + TALL + 8
    head = {"width": f"{wide:g}", "height": f"{y + 4:g}", "viewBox": f"0 0 {wide:g} {y + 4:g}", "fill": GREY}
    return tag("svg", pieces, xmlns="http://www.w3.org/2000/svg", font_family=SANS, font_size=12, **head)


def legend(used: Iterable[str]) -> list[tuple[str, str]]:
    """What the colours of some letters stand for."""
    return list(dict.fromkeys(PARTS.get(letter, OTHER)[:2] for letter in used))


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


def _svg(label: str, pieces: list[Markup], width: float) -> Markup:
    size = {"width": f"{width:g}", "height": TALL, "viewBox": f"0 0 {width:g} {TALL}"}
    return tag("svg", pieces, class_="strip", role="img", aria_label=f"layout {label}", **size)


def _rect(x: float, y: float, width: float, height: float, fill: str, title: str = "") -> Markup:
    inside = tag("title", title) if title else Markup("")
    return tag("rect", inside, x=f"{x:g}", y=f"{y:g}", width=f"{width:g}", height=f"{height:g}", rx=3, fill=fill)


def _text(words: str, x: float, y: float) -> Markup:
    return tag("text", words, x=f"{x:g}", y=f"{y:g}")
