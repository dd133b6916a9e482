"""`sublayer runs`: the runs in a folder, with their progress and their scores."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from sublayer.cli.start import import_torch

if TYPE_CHECKING:
    from sublayer.runs.summary import RunSummary


def runs(folder: str = "runs", /, *, json: Annotated[bool, Parameter(negative="")] = False) -> None:
    """The runs in a folder: model, progress, best validation score.

    Examples: sublayer runs · sublayer runs experiments --json

    Parameters
    ----------
    folder
        The folder of runs, searched two levels deep; or a single run.
    json
        Print JSON.
    """
    import_torch()
    from sublayer.cli.words import print_json
    from sublayer.plugins import load_installed_plugins
    from sublayer.runs.summary import RunProblem, RunSummary, summaries
    from sublayer.runs.wording import command

    load_installed_plugins()
    found = summaries(folder)
    if not found:
        raise ValueError(f"{folder}: no run in it; {command('train', 'gpt2', '--out', f'{folder}/NAME')} makes one")
    problems = [one.error for one in found if isinstance(one, RunProblem)]
    if len(problems) == len(found):
        raise ValueError(problems[0])
    if json:
        print_json([asdict(one) for one in found])
        return
    _print_table([one for one in found if isinstance(one, RunSummary)])
    print(*problems, sep="\n", end="\n" if problems else "")


def _print_table(found: list[RunSummary]) -> None:
    from rich.console import Console

    from sublayer.cli.words import coloured, figures_table, short

    pixels = any(run.valid_bits_per_dim is not None for run in found)
    more = ("valid bits/dim",) if pixels else ()
    figures = ("dim", "params", "steps", "tokens", "valid loss", "valid bits/byte", *more, "minutes")
    table = figures_table(("run", "layout"), figures)
    for run in found:
        steps = f"{run.steps:,}" + (f" of {run.of:,}" if run.of and run.of != run.steps else "")
        found_scores = run.valid_loss, run.valid_bits_per_byte, *((run.valid_bits_per_dim,) if pixels else ())
        scores = ("—" if one is None else f"{one:.4f}" for one in found_scores)
        cells = (str(run.dim), short(run.params), steps, short(run.tokens), *scores, f"{run.minutes:.1f}")
        table.add_row(run.run, coloured(run.layout), *cells)
    Console().print(table)
