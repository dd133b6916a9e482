"""What `sublayer eval` prints: scores, as a page for people and as JSON for programs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.table import Table

FIGURES = {
    "loss": "loss",
    "perplexity": "perplexity",
    "bits_per_byte": "bits/byte",
    "bits_per_character": "bits/char",
}
MARKS = ("accuracy", "sequence_accuracy", "loss")
BAR = 40
"""Characters of the longest bar."""


def print_page(told: dict[str, Any]) -> None:
    from rich.console import Console
    from rich.text import Text

    console = Console(highlight=False)
    split = "" if told["split"] == "all" else f"{told['split']} of "
    console.print(Text(told["run"], style="bold"), f"step {told['step']:,}, {split}{told['text']}", markup=False)
    if told["split"] != told["asked"]:
        console.print(f"{told['asked']} is empty, so {told['split']} is scored", style="yellow")
    console.print(_way(told), style="dim")
    if "positions" in told:
        console.print(_positions(told["positions"]))
    elif "lengths" in told:
        console.print(_lengths(told["lengths"]))
    elif "answers" in told:
        console.print(_marks(told))
    else:
        console.print(_figures(told))


def _way(told: dict[str, Any]) -> str:
    from sublayer.runs.wording import plural

    if "answers" in told and told["length"] is None:
        return "episodes, each read by itself"
    length = "" if told["length"] is None else f" of {plural(told['length'], 'token')}"
    if told["stride"] is not None:
        return f"windows{length}, {told['stride']:,} apart"
    how = f"{plural(told['memory'], 'place')} before them remembered" if told["memory"] else "each begun afresh"
    return f"segments{length}, {how}"


def _table(*titles: str) -> Table:
    from rich.table import Table

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold", show_header=any(titles))
    for title in titles:
        table.add_column(title, justify="right", no_wrap=True)
    return table


def _figures(told: dict[str, Any]) -> Table:
    table = _table("", "")
    table.columns[0].justify = "left"
    own = [name for name, value in told.items() if isinstance(value, float)]  # of an objective that measures others
    for name in FIGURES if "perplexity" in told else own:
        table.add_row(name.replace("_", " "), _figure(told[name]))
    if "tokens" in told:
        table.add_row("tokens", f"{told['tokens']:,}")
    return table


def _marks(told: dict[str, Any]) -> Table:
    table = _table("", "")
    table.columns[0].justify = "left"
    for name in MARKS:
        table.add_row(name.replace("_", " "), _figure(told[name]))
    table.add_row("answers", f"{told['answers']:,}")
    table.add_row("episodes", f"{told['episodes']:,}")
    return table


def _lengths(rows: list[dict[str, Any]]) -> Table:
    table = _table("length", "of trained", *FIGURES.values(), "tokens")
    for row in rows:
        figures = [_figure(row[name]) for name in FIGURES]
        table.add_row(f"{row['length']:,}", f"{row['times']:.3g}×", *figures, f"{row['tokens']:,}")
    return table


def _positions(losses: list[float | None]) -> Table:
    """Means over places 1, 2, 3–4, 5–8, …, each with a bar: what a context twice as long gains, row by row."""
    table = _table("place", "loss", "")
    table.columns[2].justify = "left"
    means, start, stop = [], 0, 1
    while start < len(losses):
        here = losses[start:stop]
        places = f"{start + 1:,}" if len(here) == 1 else f"{start + 1:,}–{start + len(here):,}"
        known = [loss for loss in here if loss is not None]
        means.append((places, sum(known) / len(known) if len(known) == len(here) else None))
        start, stop = stop, 2 * stop
    most = max((mean for _, mean in means if mean), default=1.0)
    for places, mean in means:
        table.add_row(places, _figure(mean), "█" * round(BAR * (mean or 0) / most))
    return table


def _figure(value: float | None) -> str:
    return "—" if value is None else f"{value:.4f}" if value < 1000 else f"{value:,.0f}"
