"""The page of patterns: who sees whom in the papers on long texts and images, drawn from the code.

Sizes are small, so that blocks and columns can be seen; `sublayer show NAME --pattern` draws a model's own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import permutations

import torch

from sublayer.nn.attention import pattern as members
from sublayer.nn.attention.pattern import Pattern
from sublayer.nn.model import Model
from sublayer.reports.patterns import Panel, draw
from sublayer.reports.patterns.cells import cells
from sublayer.reports.patterns.svg import Square, grid, svg

IMAGE = 16
"""Pixels along a small square image."""
TEXT = 64
ACROSS = 64
IN_A_ROW = 3
INTRODUCTION = """# Who sees whom

Attention compares every token with every other; a pattern leaves most pairs out, and the work follows. In each square
a row is a query, a column is a key, and a blue cell is a pair that is compared. The pictures are drawn by asking the
patterns of the package pair by pair, so they show what runs. Kinds and fields are in [the alphabet](alphabet.md).

A model's own pattern, at its own sizes:

```bash
sublayer show gpt2 s.pattern=strided --pattern
sublayer show gpt2 s.pattern=bigbird s.pattern.look=back --pattern --length 2048 --out bigbird.svg
```"""


def page() -> str:
    return "\n\n".join([INTRODUCTION, *_local(), *_factorised(), *_blockwise(), *_combined()]) + "\n"


def of_model(name: str, config: Model.Config) -> Iterator[str]:
    """For a card, where something else than everything, or everything before, is seen."""
    parts = (part for stack in config.stacks.values() for part in stack.parts)
    if any(not (one.triangle or one.unrestricted) for part in parts for one in part.patterns):
        drawing = draw(name, config)
        yield "## Who sees whom"
        yield boxed(svg(drawing))
        yield f"`sublayer show {name} --pattern` draws it in a terminal. See also [patterns](../patterns.md)."


def _local() -> Iterator[str]:
    """Figure 17 of the survey."""
    line = members.BlockLocal.Config(size=2 * IMAGE, before=2 * IMAGE)
    block = members.BlockLocal2D.Config(width=IMAGE, rows=4, columns=4, above=4, beside=4)
    yield "## Neighbours in an image: Image Transformer"
    yield (
        f"An image of {IMAGE} × {IMAGE} pixels, read row by row. Above: the image, with one pixel in red and what it "
        "sees in blue. In one dimension (`block_local`) the rows are one long line, cut into blocks; a pixel sees its "
        "block up to itself and some of the line before the block: whole rows, but few of them. In two dimensions "
        "(`block_local_2d`) blocks are rectangles, and a pixel sees around its own, above and to either side, as far "
        "as pixels are drawn already: for as many pixels, more rows. (Parmar et al. 2018, figure 2; here pixels are "
        "drawn row by row in both.)"
    )
    query = 9 * IMAGE + 9
    shown = {"one dimension": line, "two dimensions": block}
    yield _figure([*(plane(title, one, query) for title, one in shown.items()), *_matrices(shown, IMAGE**2)], 2)


def _factorised() -> Iterator[str]:
    """Figure 18 of the survey."""
    length, stride = TEXT, 8
    strided = members.Strided.Config(stride=stride)
    fixed = members.Fixed.Config(stride=stride, summary=1)
    yield "## Two steps to any token: Sparse Transformer"
    yield (
        f"The same {length} tokens as a picture of {stride} columns (above, one query in red) and as a matrix (below). "
        "Full attention looks at all that comes before. *Strided*: the last row's worth of tokens, and the query's own "
        "column; whatever else there is stands in the row of a token in that column, one step further. It suits data "
        "that has columns. *Fixed*: the query's own block, and the last tokens of every block, which sum the blocks up "
        "for all that follow. It suits text. Each picture shows both halves together; `use=by_layer` alternates them "
        "from layer to layer, `use=per_head` gives each to half of the heads. (Child et al. 2019, figure 3)"
    )
    shown: dict[str, Pattern.Config] = {"full": members.Causal.Config(), "strided": strided, "fixed": fixed}
    query = 5 * stride + 4
    planes = [plane(title, one, query, stride, length) for title, one in shown.items()]
    yield _figure([*planes, *_matrices(shown, length)])


def _blockwise() -> Iterator[str]:
    """The survey has its formula only."""
    yield "## One block each: blockwise attention"
    yield (
        "The text is cut into n blocks, and each block of queries sees one block of keys, which a permutation names: "
        "another one in each head, so that heads together see more. The work is 1/n of the whole. Here n = 3, with "
        "all six permutations. (Qiu et al. 2020)"
    )
    orders = permutations(range(3))
    shown = {
        "sees block " + ", ".join(str(one + 1) for one in order): members.Blockwise.Config(
            size=TEXT // 4, orders=(order,)
        )
        for order in orders
    }
    yield _figure(_matrices(shown, TEXT // 4 * 3))


def _combined() -> Iterator[str]:
    """Figure 19 of the survey."""
    window = members.Window.Config(size=5, look="both")
    chosen = members.Global.Config(first=4)
    apart = members.Dilated.Config(of=window, by=3)
    joined, dilated = (members.Union.Config(members=(near, chosen)) for near in (window, apart))
    drawn = members.Random.Config(block=4, blocks=2, look="both", among=TEXT)
    bigbird = members.Union.Config(members=(members.BlockLocal.Config(size=4, before=4, look="both"), chosen, drawn))
    yield "## Near and far together: ETC, Longformer, BigBird"
    yield (
        "All three join a window of neighbours, on both sides, with a few global tokens that see everyone and that "
        "everyone sees: no two tokens are then more than two steps apart. *ETC* has the global tokens as an input of "
        "its own, here the first four: the corner is global to global, the bar above global to long, the bar on the "
        "left long to global, the diagonal long to long. *Longformer* chooses tokens of the text itself, and in upper "
        "layers lets some heads look farther by leaving gaps (dilation). *BigBird* works in blocks, and adds blocks "
        "drawn at random, others in each head, which shorten the ways between tokens as in a random graph. (Ainslie et "
        "al. 2020; Beltagy et al. 2020, figure 2; Zaheer et al. 2020, figure 1)"
    )
    first, second = bigbird.by_head(2)
    shown: dict[str, Pattern.Config] = {
        "ETC; Longformer, most heads": joined,
        "Longformer, a dilated head": dilated,
        "BigBird, a head": first,
        "BigBird, another head": second,
    }
    yield _figure(_matrices(shown, TEXT), 2)


def _matrices(shown: dict[str, Pattern.Config], length: int) -> list[Square]:
    """Each pattern as a square of queries and keys, under its name."""
    named = ((title, Panel(one)) for title, one in shown.items())
    found = [(title, Square.of(panel, cells(panel.seen, length, length))) for title, panel in named]
    return [Square(one.share_RC, [title], one.below) for title, one in found]


def plane(title: str, pattern: Pattern.Config, query: int, width: int = IMAGE, length: int = IMAGE**2) -> Square:
    """What one query sees, as a picture of rows."""
    seen_L = pattern.sees(torch.tensor(query), torch.arange(length))
    below = f"sees {int(seen_L.sum())} tokens, itself included"
    return Square(seen_L.float().unflatten(0, (-1, width)), [title], below, divmod(query, width))


def _figure(squares: Sequence[Square], in_a_row: int = IN_A_ROW) -> str:
    return boxed(grid("", [], squares, in_a_row))


def boxed(drawn: str) -> str:
    """On one line of Markdown, in a box that scrolls."""
    return f'<div style="overflow-x: auto">{drawn}</div>'
