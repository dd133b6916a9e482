"""`sublayer runs`: the runs in a folder, with their progress and their scores."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from sublayer.cli.start import import_torch

if TYPE_CHECKING:
    from sublayer.runs.summary import RunSummary, UnreadableRun


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
    from sublayer.runs.summary import summaries

    load_installed_plugins()
    found = summaries(folder)
    print_json([one.dump() for one in found]) if json else _print_table(found)


def _print_table(found: list[RunSummary | UnreadableRun]) -> None:
    from rich.console import Console

    from sublayer.cli.words import coloured, figures_table, short
    from sublayer.runs.summary import RunSummary

    figures = ("dim", "params", "steps", "tokens", "valid loss", "bits/byte", "minutes")
    table = figures_table(("run", "layout"), figures)
    for run in (one for one in found if isinstance(one, RunSummary)):
        steps = f"{run.steps:,}" + (f" of {run.of:,}" if run.of and run.of != run.steps else "")
        scores = ("—" if one is None else f"{one:.4f}" for one in (run.valid_loss, run.valid_bits_per_byte))
        cells = (str(run.dim), short(run.params), steps, short(run.tokens), *scores, f"{run.minutes:.1f}")
        table.add_row(run.run, coloured(run.layout), *cells)
    Console().print(table)
    for run in (one for one in found if not isinstance(one, RunSummary)):
        print(run.error)
