"""`sublayer reproduce`: a paper's claim, run again at a small size."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from sublayer.cli.start import import_torch

if TYPE_CHECKING:
    from rich.table import Table


def reproduce(
    claim: str = "",
    *changes: str,
    out: str = "",
    seeds: str = "3",
    workers: int = 1,
    ray: str | None = None,
    json: Annotated[bool, Parameter(negative="")] = False,
) -> None:
    """Run a paper's claim again, at a size for a small machine: its figures, ours, and whether they say the same.

    Examples: sublayer reproduce · sublayer reproduce feedback/random-walk --workers 2 ·
    sublayer reproduce feedback/random-walk dim=256 layout='(sf)x4' train.steps=20000 --out reproductions/large

    The same command goes on where it was stopped. What it makes is a comparison: sublayer report draws it.

    Parameters
    ----------
    claim
        PAPER/CLAIM; without one, all of them are listed.
    changes
        key=value, for all variants: another size or budget than the claim's own.
    out
        The folder; reproductions/PAPER/CLAIM if not given.
    seeds
        How many (3: 0, 1 and 2), or which, with commas (3,5,8).
    workers
        How many train at the same time on this machine.
    ray
        Train on a Ray cluster instead: auto, local, or HOST:PORT.
    json
        Print JSON for other programs; it is in OUT/claim.json, too.
    """
    import_torch()
    from sublayer import reproduction, work
    from sublayer.cli.board import Board
    from sublayer.cli.words import read_overrides, read_seeds

    if not claim:
        _list(reproduction.claims(), json=json)
        return
    asked = reproduction.find(claim)
    place = out or f"reproductions/{asked.name}"
    with work.pool(ray, workers, []) as pool, Board() as board:
        told = reproduction.reproduce(
            asked, place, read_overrides(changes), seeds=read_seeds(seeds), pool=pool, told=board.begin
        )
    _print_json(told) if json else _print_page(told, place)


def _list(known: list[Any], *, json: bool) -> None:
    if json:
        fields = ("name", "source", "says", "scale")
        _print_json([{field: getattr(claim, field) for field in fields} for claim in known])
        return
    from rich.console import Console

    table = _table(("claim", "what the paper says", "scaled down"))
    for claim in known:
        table.add_row(claim.name, f"{claim.says} ({claim.source})", claim.scale)
    Console(highlight=False).print(table)


def _print_json(told: Any) -> None:
    import json

    print(json.dumps(told, indent=2))


def _print_page(told: dict[str, Any], place: str) -> None:
    from rich.console import Console

    from sublayer.runs.wording import command, plural

    console = Console(highlight=False)
    console.print(f"[bold]{told['claim']}[/]  {told['source']}")
    console.print(told["says"], markup=False)
    changed = ", ".join(f"{key}={value}" for key, value in told["changes"].items())
    console.print(f"scaled down: {told['scale']}" + (f"; changed: {changed}" if changed else ""), markup=False)
    for finding in told["findings"]:
        console.print()
        console.print(_finding(finding, told["params"]))
        for pair in finding["order"]:
            console.print(f"{pair['better']} before {pair['worse']}: {pair['seen']}", markup=False)
    seeds = plural(len(told["seeds"]), "seed")
    console.print(f"\n{seeds}, {told['minutes']:.0f} minutes of training; ± is 95 % (Student's t)", style="dim")
    console.print(f"{command('report', place)} · {command('runs', f'{place}/runs')}", markup=False)


def _finding(finding: dict[str, Any], params: dict[str, int]) -> Table:
    from sublayer.cli.words import short

    table = _table(("variant",), ("params", f"paper, {finding['unit']}", f"ours, {finding['unit']}", "by seed"))
    table.title, table.title_justify, table.title_style = finding["title"], "left", "italic"
    for row in finding["rows"]:
        paper, ours = row["paper"], row["ours"]
        half = "" if ours is None or ours["high"] is None else f" ± {_figure(ours['high'] - ours['mean'])}"
        table.add_row(
            row["variant"],
            short(params[row["variant"]]),
            "—" if paper is None else _figure(paper),
            "—" if ours is None else f"{_figure(ours['mean'])}{half}",
            " ".join("—" if value is None else _figure(value) for value in row["values"]),
        )
    return table


def _figure(value: float) -> str:
    """Three digits and the point; thousands whole."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3f}" if abs(value) < 10 else f"{value:.1f}"


def _table(words: tuple[str, ...], figures: tuple[str, ...] = ()) -> Table:
    from rich.table import Table

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for title in words:
        table.add_column(title, overflow="fold", min_width=8)
    for title in figures:
        table.add_column(title, justify="right", overflow="fold")
    return table
