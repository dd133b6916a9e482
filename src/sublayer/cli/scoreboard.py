"""The page that `sublayer eval` prints."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.table import Table

    from sublayer.evaluation import AgeBin, Evaluation

FIGURES = {
    "loss": "loss",
    "perplexity": "perplexity",
    "bits_per_byte": "bits/byte",
    "bits_per_character": "bits/char",
}
KNOWN_FIGURES = ((*FIGURES, "tokens"), ("accuracy", "sequence_accuracy", "loss", "answers", "episodes"))
BAR = 40
"""Characters of the longest bar."""


def print_page(found: Evaluation) -> None:
    from rich.console import Console
    from rich.text import Text

    console = Console(highlight=False)
    split = "text" if found.split == "all" else f"{found.split} split"
    console.print(Text(found.run, style="bold"), f"step {found.step:,}, {split}: {found.text}", markup=False)
    if found.split != found.asked:
        console.print(f"{found.asked} is empty, so {found.split} is scored", style="yellow")
    console.print(_protocol(found), style="dim")
    if found.datastore is not None:
        console.print("\n".join(_looked_up(found.datastore)), style="dim", markup=False, soft_wrap=True)
    data = found.dump()
    if found.positions is not None:
        console.print(_positions(found.positions))
    elif found.ages is not None:
        console.print(_ages(found.ages))
    elif found.lengths is not None:
        console.print(_lengths(data["lengths"]))
    else:
        alone = {} if found.datastore is None else found.datastore["model"]
        console.print(_figures(found.figures or {}, {f"{name}, model alone": alone[name] for name in alone}))


def _protocol(found: Evaluation) -> str:
    from sublayer.runs.wording import plural

    if found.figures is not None and found.length is None:
        return f"{found.row}s, each read by itself"
    length = "" if found.length is None else f" of {plural(found.length, 'token')}"
    if found.stride is not None:
        return f"windows{length}, {found.stride:,} apart"
    memory = f"with {plural(found.memory, 'token')} of memory" if found.memory else "each without context"
    return f"segments{length}, {memory}"


def _table(*titles: str) -> Table:
    from rich.table import Table

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold", show_header=any(titles))
    for title in titles:
        table.add_column(title, justify="right", no_wrap=True)
    return table


def _looked_up(about: Mapping[str, Any]) -> Iterator[str]:
    """A line for each store, and one for how they are used."""
    for store in about["datastores"]:
        recall = "; ".join(f"{share:.3f} of the nearest {count}" for count, share in (store["recall"] or {}).items())
        finds = f", finds {recall}" if recall else ""
        yield f"{store['store']}: {store['entries']:,} tokens of {store['text']}, index {store['index']}{finds}"
    settings = f"--lambda {about['lambda']:.4g} --temperature {about['temperature']:.5g}"
    tuned = f", tuned on {about['tuned']['split']}" if "tuned" in about else ""
    yield f"{about['neighbours']:,} neighbours, {settings}{tuned}"


def _figures(figures: Mapping[str, Any], more: Mapping[str, Any]) -> Table:
    """Those of a text, those of a task, or all that another objective has; and more of them."""
    shown = next((names for names in KNOWN_FIGURES if set(names) <= figures.keys()), tuple(figures))
    table = _table("", "")
    table.columns[0].justify = "left"
    for name in shown:
        value = figures[name]
        table.add_row(name.replace("_", " "), f"{value:,}" if isinstance(value, int) else _figure(value))
    for name, value in more.items():
        table.add_row(name, _figure(value))
    return table


def _lengths(rows: list[dict[str, Any]]) -> Table:
    table = _table("length", "of trained", *FIGURES.values(), "tokens")
    for row in rows:
        figures = [_figure(row[name]) for name in FIGURES]
        table.add_row(f"{row['length']:,}", f"{row['times']:.3g}×", *figures, f"{row['tokens']:,}")
    return table


def _positions(losses: Sequence[float | None]) -> Table:
    """Means over positions 1, 2, 3–4, 5–8, …, each with a bar: what a context twice as long gains, row by row."""
    table = _table("position", "loss", "")
    table.columns[2].justify = "left"
    means, start, stop = [], 0, 1
    while start < len(losses):
        some = losses[start:stop]
        positions = f"{start + 1:,}" if len(some) == 1 else f"{start + 1:,}–{start + len(some):,}"
        known = [loss for loss in some if loss is not None]
        means.append((positions, sum(known) / len(known) if len(known) == len(some) else None))
        start, stop = stop, 2 * stop
    most = max((mean for _, mean in means if mean), default=1.0)
    for positions, mean in means:
        table.add_row(positions, _figure(mean), "█" * round(BAR * (mean or 0) / most))
    return table


def _ages(bins: Sequence[AgeBin]) -> Table:
    """With a bar for what one key gets, on a logarithmic scale over three powers of ten."""
    from math import log10

    table = _table("age", "attention", "keys", "each", "")
    table.columns[4].justify = "left"
    most = max(one.weight for one in bins)
    for one in bins:
        bar = 1 + log10(one.weight / most) / 3 if one.weight else 0
        row = f"{one.first:,}–{one.last:,}", f"{one.mass:.1%}", f"{one.keys:,.1f}", f"{one.weight:.2e}"
        table.add_row(*row, "█" * round(BAR * max(0, bar)))
    return table


def _figure(value: float | None) -> str:
    return "—" if value is None else f"{value:.4f}" if value < 1000 else f"{value:,.0f}"
