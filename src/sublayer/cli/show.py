"""`sublayer show`: one member of the family."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from sublayer.cli.start import import_torch

if TYPE_CHECKING:
    from rich.console import Console

    from sublayer.nn.model import Cost, Model
    from sublayer.papers.chosen_paths import ChosenPath
    from sublayer.papers.description import Description, Figure


def show(
    name: str,
    /,
    *changes: str,
    diff: str | None = None,
    length: int | None = None,
    memory: int | None = None,
    pattern: Annotated[bool, Parameter(negative="")] = False,
    out: str | None = None,
    plugin: Annotated[list[str] | None, Parameter(negative="")] = None,
    json: Annotated[bool, Parameter(negative="")] = False,
) -> None:
    """One member of the family: its config, its difference to its parent, its cost, its citation, its fast paths.

    Examples: sublayer show par-base · sublayer show gpt2 dim=256 layout='(sf)x3' s.heads=2,2,2 f.inner=512,640,768 ·
    sublayer show runs/first · sublayer show 'searches/first#knee' · sublayer show gpt2 s.pattern=strided --pattern

    Parameters
    ----------
    name
        A paper's name (see sublayer list), a JSON or TOML file with a config, the folder of a run, or a candidate of a
        search: searches/first#12, searches/first#best, #fastest or #knee.
    changes
        key=value: dim=256, layout='par(5)', position=rotary, f.inner=1024. A comma list gives a letter's field one
        value per occurrence: s.heads=2,4,2. A layout rule stands on the layout before it (layout='(sf)x6'
        layout='par(5)'), else on the model's own; layout='par(5,12)' on 12 sublayers. Rules are par and sandwich.
    diff
        Show the difference to this model instead of to its parent; it is named as NAME is.
    length
        Number of new tokens in the pass whose FLOPs are counted; 64 if not given. With --pattern: of tokens drawn; if
        not given, as many as show what the pattern leaves out.
    memory
        Number of remembered tokens in that pass; if not given, as many as the model holds.
    pattern
        Draw who sees whom instead: a row for each query, a column for each key; layers and heads that differ stand side
        by side, with the share of all pairs that is seen, the mean number of keys that a token sees, and how many
        earlier tokens it reaches. With --json, the keys of each query as runs: 0-15 32 40-56:8 (40, 48, 56).
    out
        With --pattern: an SVG or PNG file to write the picture to: sublayer show gpt2 s.pattern=bigbird
        s.pattern.look=back --pattern --out bigbird.svg
    plugin
        A module with parts or papers of your own; may be given more than once.
    json
        Print JSON.
    """
    import_torch()
    import sublayer
    from sublayer.cli.words import load_plugins, print_json, read_overrides

    load_plugins(plugin or [])
    if pattern:
        from sublayer.cli.pattern import show_pattern

        _refuse_with_pattern(diff=diff, memory=memory)
        config = sublayer.config(name, read_overrides(changes))
        show_pattern(" ".join((name, *changes)), config, length, out, json)
        return
    if out is not None:
        raise ValueError(f"--out {out}: only a pattern is drawn into a file; add --pattern, or use --json > {out}")
    length = 64 if length is None else length
    found = sublayer.describe(name, read_overrides(changes), diff=diff, length=length, memory=memory)
    print_json(found.dump()) if json else _print_page(found)


def _refuse_with_pattern(**options: object) -> None:
    for option, value in options.items():
        if value is not None:
            raise ValueError(f"--{option} {value}: a pattern is drawn without it; leave out --{option} or --pattern")


def _print_page(found: Description) -> None:
    from rich.console import Console
    from rich.text import Text

    from sublayer.cli.words import coloured

    console = Console()
    console.print(Text(found.name, style="bold"), Text(found.config.tag, style="dim"))
    if found.paper:
        for paragraph in found.paper.story.split("\n\n"):
            console.print(" ".join(paragraph.split()), highlight=False, markup=False)
        console.print(found.paper.cite, style="dim", highlight=False, markup=False)
    if found.origin:
        console.print(f"trained from {found.origin}", style="dim", highlight=False, markup=False)
    if found.figures:
        _print_figures(console, found.figures)
    console.print()
    for name, stack in found.config.stacks.items():
        console.print(f"{name or 'layout'}  ", coloured(stack.layout), sep="")
    _print_diff(console, found)
    _print_config(console, found.config)
    _print_cost(console, found.cost)
    _print_paths(console, found.paths)


def _print_figures(console: Console, figures: Sequence[Figure]) -> None:
    """What a search knows about its candidate."""
    from sublayer.nas.units import write

    for one in figures:
        console.print(f"{one.name} {write(one.name, one.value)}, {one.how}", highlight=False, markup=False)


def _print_diff(console: Console, found: Description) -> None:
    from rich.table import Table
    from rich.text import Text

    from sublayer.cli.words import plain

    if not found.diff:
        return
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    table.add_column(f"against {found.against}", overflow="fold")
    table.add_column("there", style="red", overflow="fold")
    table.add_column("here", style="green", overflow="fold")
    for path, (there, here) in found.diff.items():
        table.add_row(path, Text(plain(there)), Text(plain(here)))
    console.print()
    console.print(table)


def _print_config(console: Console, config: Model.Config) -> None:
    console.print("\n[bold]config[/bold]  ", end="")
    console.print(f"sha256 {config.hash[:12]}", style="dim", highlight=False)
    console.print(config.to_toml().rstrip(), markup=False)


def _print_cost(console: Console, cost: Cost) -> None:
    from rich.table import Table

    from sublayer.cli.words import short

    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("parameters")
    table.add_column("", justify="right")
    for where in ("tokens", "positions", "stack", "final_norm", "head"):
        table.add_row(f"  {where}", f"{getattr(cost, where):,}")
    table.add_row("in all", f"{cost.params:,}", style="bold")
    table.add_row("decoder (stack + final_norm)", f"{cost.decoder_params:,}")
    work = cost.flops
    table.add_row("", "")
    table.add_row(f"FLOPs, {work.length} new and {work.memory} remembered", short(work.total), style="bold")
    if work.embedding:
        table.add_row("  embedding", short(work.embedding))
    table.add_row("  stack", short(work.stack))
    table.add_row("  head", short(work.head))
    if work.frozen_stack != work.stack:
        table.add_row("  stack, memory stored as keys and values", short(work.frozen_stack))
    console.print()
    console.print(table)


def _print_paths(console: Console, rows: list[ChosenPath]) -> None:
    """One line per mode, or one for both where they agree; below it, what the faster paths do not serve."""
    from rich.table import Table

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for title in ("sublayers", "mode", "path", "not faster, because"):
        table.add_column(title, overflow="fold")
    for row in rows:
        modes = {"training": row.training, "generation": row.generation}
        if row.training == row.generation:
            modes = {"both": row.training}
        for mode, choice in modes.items():
            if choice is not None:
                reasons = "; ".join(f"{path}: {reason}" for path, reason in choice.why_not)
                table.add_row(row.of if row.count == 1 else f"{row.of} ×{row.count}", mode, choice.path, reasons)
    console.print()
    console.print(table, highlight=False, markup=False)
