"""`sublayer runs`: what was trained, and how far it came."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any

from cyclopts import Parameter

from sublayer.cli.start import import_torch


def runs(folder: str = "runs", /, *, json: Annotated[bool, Parameter(negative="")] = False) -> None:
    """The runs in a folder: their model, how far they came, and how good they are.

    Examples: sublayer runs · sublayer runs experiments --json

    Parameters
    ----------
    folder
        Where to look, up to two folders deep; a single run may be given, too.
    json
        Print JSON for other programs.
    """
    import_torch()
    from sublayer.cli.words import print_json
    from sublayer.plugins import load_installed_plugins
    from sublayer.runs.summary import summaries
    from sublayer.runs.wording import command

    load_installed_plugins()
    rows = [asdict(row) for row in summaries(folder)]
    if not rows:
        raise ValueError(f"{folder}: no run in it; {command('train', 'gpt2', '--out', f'{folder}/NAME')} makes one")
    if all("error" in row for row in rows):
        raise ValueError(rows[0]["error"])
    print_json(rows) if json else _print_table(rows)


def _print_table(rows: list[dict[str, Any]]) -> None:
    from rich.console import Console
    from rich.table import Table

    from sublayer.cli.words import coloured, short

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for title in ("run", "layout"):
        table.add_column(title, overflow="fold")
    for title in ("dim", "params", "steps", "tokens", "valid loss", "bits/byte", "minutes"):
        table.add_column(title, justify="right", no_wrap=True)
    for row in (row for row in rows if "error" not in row):
        steps = f"{row['steps']:,}" + (f" of {row['of']:,}" if row["of"] and row["of"] != row["steps"] else "")
        scores = ["—" if row[name] is None else f"{row[name]:.4f}" for name in ("valid_loss", "valid_bits_per_byte")]
        figures = (str(row["dim"]), short(row["params"]), steps, short(row["tokens"]), *scores, f"{row['minutes']:.1f}")
        table.add_row(row["run"], coloured(row["layout"]), *figures)
    Console().print(table)
    for row in (row for row in rows if "error" in row):
        print(row["error"])
