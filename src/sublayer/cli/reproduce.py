"""`sublayer reproduce`: a paper's claim, run again at a small size."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from sublayer.cli.start import import_torch
from sublayer.cli.words import figures_table, print_json, read_overrides, read_seeds, short

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
    from sublayer import executors, reproduction
    from sublayer.cli.board import Board

    if not claim:
        _list(reproduction.claims(), json=json)
        return
    asked = reproduction.find(claim)
    place = out or f"reproductions/{asked.name}"
    with executors.pool(ray, workers, []) as pool, Board() as board:
        told = reproduction.reproduce(
            asked, place, read_overrides(changes), seeds=read_seeds(seeds), pool=pool, told=board.begin
        )
    print_json(told) if json else _print_page(told, place)


def _list(known: list[Any], *, json: bool) -> None:
    if json:
        fields = ("name", "source", "says", "scale")
        print_json([{field: getattr(claim, field) for field in fields} for claim in known])
        return
    from rich.console import Console

    table = figures_table(("claim", "what the paper says", "scaled down"))
    for claim in known:
        table.add_row(claim.name, f"{claim.says} ({claim.source})", claim.scale)
    Console(highlight=False).print(table)


def _print_page(told: dict[str, Any], place: str) -> None:
    from rich.console import Console

    from sublayer.reproduction.wording import orders
    from sublayer.runs.wording import change, command, plural

    console = Console(highlight=False)
    console.print(f"[bold]{told['claim']}[/]  {told['source']}")
    console.print(told["says"], markup=False)
    changed = ", ".join(change(key, value) for key, value in told["changes"].items())
    console.print(f"scaled down: {told['scale']}" + (f"; changed: {changed}" if changed else ""), markup=False)
    for finding in told["findings"]:
        console.print()
        console.print(_finding(finding, told["params"]))
        for line in orders(finding):
            console.print(line, markup=False)
    seeds = plural(len(told["seeds"]), "seed")
    took = plural(round(told["minutes"]), "minute")
    console.print(f"\n{seeds}, {took} of training; ± is 95 % (Student's t)", style="dim")
    console.print(f"{command('report', place)} · {command('runs', f'{place}/runs')}", markup=False)


def _finding(finding: dict[str, Any], params: dict[str, int]) -> Table:
    from sublayer.reproduction.wording import cells

    unit = finding["unit"]
    table = figures_table(("variant",), ("params", f"paper, {unit}", f"ours, {unit}"), ("by seed",))
    table.title, table.title_justify, table.title_style = finding["title"], "left", "italic"
    for variant, *figures in cells(finding):
        table.add_row(variant, short(params[variant]), *figures)
    return table
