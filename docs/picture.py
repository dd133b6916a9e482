"""Draw layouts as rows of blocks, one block a sublayer: docs/images/family.svg, and a row for each method card.

Colours and greys are chosen to be legible on white and on black, so one file serves both.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from xml.sax.saxutils import escape

import sublayer
from sublayer.cli.words import short
from sublayer.nn import layout as layouts
from sublayer.reports.blocks import OTHER, PARTS

ROWS = ("transformer", "bert-base", "gpt2", "transformer-xl-base", "sandwich-base", "par-base")
GREY = "#717a85"
SANS = "system-ui, -apple-system, 'Segoe UI', Helvetica, Arial, sans-serif"
MONO = "ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace"
STEP, SIZE, TALL = 18, 15, 24
"""From block to block, a block's width, its height."""
LEFT, LINE, TOP = 178, 42, 34
"""Room for names, from row to row, room for the legend."""


def blocks(layout: str, x: float, y: float) -> Iterable[str]:
    """One rounded block a sublayer, with its letter in it."""
    yield f'<g font-family="{MONO}" font-size="11" text-anchor="middle">'
    for number, letter in enumerate(layouts.expand(layout)):
        _, fill, ink = PARTS.get(letter, OTHER)
        left = x + number * STEP
        yield f'<rect x="{left}" y="{y}" width="{SIZE}" height="{TALL}" rx="3" fill="{fill}"/>'
        yield f'<text x="{left + SIZE / 2}" y="{y + 16}" fill="{ink}">{letter}</text>'
    yield "</g>"


def text(words: str, x: float, y: float, *, size: float = 13, anchor: str = "start", font: str = "") -> str:
    family = f' font-family="{font}"' if font else ""
    return f'<text x="{x}" y="{y}" font-size="{size}" text-anchor="{anchor}"{family}>{escape(words)}</text>'


def svg(width: int, height: int, title: str, pieces: Iterable[str]) -> str:
    head = f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}"'
    head += f' font-family="{SANS}" fill="{GREY}" role="img">'
    return "\n".join([head, f"<title>{escape(title)}</title>", *pieces, "</svg>"])


def strip(layout: str) -> str:
    """One layout alone, for a card; on one line of Markdown, in a box that scrolls."""
    drawn = svg(len(layouts.expand(layout)) * STEP, TALL, f"The layout {layout}", blocks(layout, 0, 0))
    return f'<div style="overflow-x: auto">{"".join(drawn.splitlines())}</div>'


def chip(letter: str) -> str:
    """A letter in its block's colours, for a legend."""
    _, fill, ink = PARTS.get(letter, OTHER)
    style = f"background:{fill};color:{ink};border-radius:3px;padding:0 .35em;font-family:{MONO}"
    return f'<span style="{escape(style)}">{letter}</span>'


def family(names: Iterable[str] = ROWS) -> str:
    """Several papers, one stack a row, with their size and work."""
    rows = [(name, prefix, stack.layout) for name in names for prefix, stack in sublayer.config(name).stacks.items()]
    wide = LEFT + max(len(layouts.expand(layout)) for _, _, layout in rows) * STEP
    width, pieces = wide + 160, list(legend(wide))
    for n, (name, prefix, layout) in enumerate(rows):
        y = TOP + n * LINE
        pieces.append(text(f"{name} {prefix}".strip(), 0, y + 10))
        pieces.append(text(layout, 0, y + 25, size=11, font=MONO))
        pieces += blocks(layout, LEFT, y)
        if n == 0 or rows[n - 1][0] != name:
            cost = sublayer.config(name).cost()
            pieces.append(text(short(cost.params), wide + 84, y + 16, anchor="end"))
            pieces.append(text(short(cost.flops.total), wide + 158, y + 16, anchor="end"))
    title = "The layouts of some members of the family: " + "; ".join(f"{name} {layout}" for name, _, layout in rows)
    return svg(width, TOP + len(rows) * LINE - (LINE - TALL) + 10, title, pieces) + "\n"


def legend(wide: int) -> Iterable[str]:
    x = LEFT
    for words, fill, _ in PARTS.values():
        yield f'<rect x="{x}" y="3" width="11" height="11" rx="2" fill="{fill}"/>'
        yield text(words, x + 16, 13)
        x += 132
    yield text("parameters", wide + 84, 13, anchor="end")
    yield text("FLOPs", wide + 158, 13, anchor="end")


if __name__ == "__main__":
    file = Path(__file__).parent / "images" / "family.svg"
    file.write_text(family(), encoding="utf-8")
    print(f"wrote {file}")
