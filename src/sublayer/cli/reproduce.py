"""`sublayer reproduce`: a paper's claim, run again at a small size."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from sublayer.cli.comparing import ComparisonView
from sublayer.cli.start import import_torch
from sublayer.cli.stopping import when_stopped
from sublayer.cli.words import figures_table, print_json, read_overrides, read_seeds, short
from sublayer.progress import Display

if TYPE_CHECKING:
    from rich.table import Table

    from sublayer.reproduction import ClaimResult
    from sublayer.reproduction.result import FindingResult


def reproduce(
    claim: str = "",
    *changes: str,
    data: str = "",
    out: str = "",
    seeds: str = "3",
    workers: int = 1,
    ray: str | None = None,
    json: Annotated[bool, Parameter(negative="")] = False,
) -> None:
    """Run a paper's claim again, at a size for a small machine: the paper's figures, ours, and whether they agree.

    Examples: sublayer reproduce · sublayer reproduce feedback/random-walk --workers 2 ·
    sublayer reproduce feedback/random-walk dim=256 layout='(sf)x4' train.steps=20000 --out reproductions/large

    The same command continues where it was stopped. The result is a comparison: sublayer report draws it.

    Parameters
    ----------
    claim
        PAPER/CLAIM; without it, all claims are listed.
    changes
        key=value for all variants: another size or budget than the claim's own.
    data
        What to train on instead of the claim's own: a file, a folder, stdlib, task:NAME or image:PATH.
    out
        The folder; reproductions/PAPER/CLAIM if not given.
    seeds
        Number of seeds (3: 0, 1 and 2), or the seeds with commas (3,5,8).
    workers
        Number of trainings at the same time on this machine.
    ray
        Train on a Ray cluster instead: auto, local, or HOST:PORT.
    json
        Print JSON, which is also in OUT/claim.json.
    """
    if not claim:
        _print_claims(json=json)
        return
    view = ComparisonView(Display("starting"))
    with when_stopped(view.stopped), view.display:
        import_torch()
        import sublayer
        from sublayer import executors

        how = {"data": data, "seeds": read_seeds(seeds), "on_start": view.start, "on_phase": view.phase}
        with executors.pool(ray, workers, []) as pool:
            result = sublayer.reproduce(claim, out, read_overrides(changes), pool=pool, **how)
    print_json(result.dump()) if json else _print_page(result, str(view.folder))


def _print_claims(*, json: bool) -> None:
    import_torch()
    from sublayer import reproduction

    known = reproduction.claims()
    if json:
        fields = ("name", "source", "says", "scale")
        print_json([{field: getattr(claim, field) for field in fields} for claim in known])
        return
    from rich.console import Console

    table = figures_table(("claim", "what the paper says", "scaled down"))
    for claim in known:
        table.add_row(claim.name, f"{claim.says} ({claim.source})", claim.scale)
    Console(highlight=False).print(table)


def _print_page(result: ClaimResult, folder: str) -> None:
    from rich.console import Console

    from sublayer.runs.wording import change, command, plural

    console = Console(highlight=False)
    console.print(f"[bold]{result.claim}[/]  {result.source}")
    console.print(result.says, markup=False)
    changed = ", ".join((*([result.data] if result.data else ()), *(change(*pair) for pair in result.changes.items())))
    console.print(f"scaled down: {result.scale}" + (f"; changed: {changed}" if changed else ""), markup=False)
    for finding in result.findings:
        console.print()
        console.print(_finding(finding, result.params))
        for pair in finding.pairs:
            console.print(pair.words, markup=False)
    seeds = plural(len(result.seeds), "seed")
    took = plural(round(result.minutes), "minute")
    console.print(f"\n{seeds}, {took} of training; ± is 95 % (Student's t)", style="dim")
    console.print(f"{command('report', folder)} · {command('runs', f'{folder}/runs')}", markup=False)


def _finding(finding: FindingResult, params: dict[str, int]) -> Table:
    unit = finding.unit
    table = figures_table(("variant",), ("params", f"paper, {unit}", f"ours, {unit}"), ("by seed",))
    table.title, table.title_justify, table.title_style = finding.title, "left", "italic"
    for variant, *figures in finding.cells:
        table.add_row(variant, short(params[variant]), *figures)
    return table
