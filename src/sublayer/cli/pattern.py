"""`sublayer show NAME --pattern`: who sees whom, in characters, as JSON or in a file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rich.console import Console

    from sublayer.nn.model import Model
    from sublayer.reports.patterns import Drawing

GAP = 2
SIZES = (64, 32, 32, 32)
"""Characters along one of one, two, … panels; of more, SMALL."""
SMALL = 16


def show_pattern(title: str, config: Model.Config, length: int | None, out: str | None, json: bool) -> None:
    from rich.console import Console

    from sublayer.cli.words import print_json
    from sublayer.reports.patterns import draw
    from sublayer.reports.patterns.files import check, write

    if out is not None:
        check(Path(out))
        drawing = draw(title, config, length)
        path = write(drawing, Path(out))
        print_json(drawing.dump() | {"out": str(path)}) if json else print(f"{path}: {drawing.note}")
        return
    console = Console()
    drawing = draw(title, config, length, _room(console.width))
    print_json(drawing.dump()) if json else _print(console, drawing)


def _room(width: int) -> Callable[[int], int]:
    """Cells along a panel, from the number of panels."""
    return lambda count: max(4, min(SIZES[count - 1] if count <= len(SIZES) else SMALL, width - 2))


def _print(console: Console, drawing: Drawing) -> None:
    from rich.text import Text

    from sublayer.reports.patterns.characters import framed, lines
    from sublayer.reports.patterns.panels import balanced

    console.print(Text(drawing.title, style="bold"), Text("who sees whom", style="dim"))
    console.print(f"{drawing.note}; a character is two rows", style="dim", highlight=False, markup=False)
    pictures = [(panel.caption, framed(lines(found.share_RR))) for panel, found in drawing.panels]
    wide = max(len(line) for caption, picture in pictures for line in (*caption, *picture))
    across = balanced(len(pictures), max(1, (console.width + GAP) // (wide + GAP)))
    for first in range(0, len(pictures), across):
        console.print()
        _print_row(console, pictures[first : first + across], wide)
    _print_figures(console, drawing)


def _print_row(console: Console, pictures: Sequence[tuple[Sequence[str], list[str]]], wide: int) -> None:
    """Pictures side by side, each under its caption."""
    from rich.text import Text

    from sublayer.cli.words import COLOURS

    captions = max(len(caption) for caption, _ in pictures)
    columns = [[*caption, *[""] * (captions - len(caption)), *picture] for caption, picture in pictures]
    for number, pieces in enumerate(zip(*columns, strict=True)):
        line = Text((" " * GAP).join(piece.ljust(wide) for piece in pieces).rstrip())
        if number >= captions:
            line.stylize(COLOURS["s"])
            line.highlight_regex(r"[┌─┐│└┘]", "dim")
        console.print(line, no_wrap=True, crop=False)


def _print_figures(console: Console, drawing: Drawing) -> None:
    from sublayer.cli.words import figures_table
    from sublayer.reports.patterns.panels import in_words

    ahead = any(found.ahead for _, found in drawing.panels)
    alone = len(drawing.panels) == 1
    table = figures_table(
        () if alone else ("of",), ("of all pairs", "keys a token", "reach", *(("ahead",) if ahead else ()))
    )
    for panel, found in drawing.panels:
        reach = "all" if panel.sees is None else f"{panel.sees:,}"
        figures = [f"{100 * found.seen:.3g} %", f"{found.keys:,.4g}", reach, *([f"{found.ahead:,}"] if ahead else [])]
        table.add_row(*([] if alone else [panel.name]), *figures)
    console.print()
    console.print(table, highlight=False, markup=False)
    console.print()
    for panel, _ in drawing.panels:
        title = "" if alone else f"{panel.name}: "
        console.print(f"{title}{in_words(panel.pattern)}", highlight=False, markup=False)
    for line in drawing.rest:
        console.print(line, style="dim", highlight=False, markup=False)
