"""`sublayer show`: one member of the family: its config, its diff, its cost, its citation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from sublayer.cli.start import import_torch

if TYPE_CHECKING:
    from rich.console import Console

    from sublayer.nn.model import Cost, Model


def show(
    name: str,
    /,
    *changes: str,
    diff: str | None = None,
    length: int = 64,
    memory: int | None = None,
    plugin: Annotated[list[str] | None, Parameter(negative="")] = None,
    json: Annotated[bool, Parameter(negative="")] = False,
) -> None:
    """One member of the family: its config, what it changes, what it costs, where it is from.

    Examples: sublayer show par-base · sublayer show gpt2 dim=256 layout='(sf)x3' s.heads=2,2,2 f.inner=512,640,768

    Parameters
    ----------
    name
        A paper's name (see sublayer list), or a JSON or TOML file with a config.
    changes
        key=value: dim=256, layout='par(5)', position=rotary, f.inner=1024. A comma list varies a letter's field by
        occurrence: s.heads=2,4,2.
    diff
        Show what differs from this paper or file, instead of from its parent.
    length
        New tokens of the pass whose FLOPs are counted.
    memory
        Remembered tokens of that pass; left out: as many as the model keeps.
    plugin
        A module with parts or papers of your own; may be given more than once.
    json
        Print JSON for other programs.
    """
    import_torch()
    from sublayer import config
    from sublayer.cli.words import load_plugins, read_overrides
    from sublayer.papers import registry

    if length < 1 or (memory or 0) < 0:
        raise ValueError(f"length {length}, memory {memory}: count at least 1 new token and no fewer than 0 remembered")
    load_plugins(plugin or [])
    made = config(name, read_overrides(changes))
    entry = registry.PAPERS.get(name)
    against = diff or (entry.parent if entry else None)
    about: dict[str, Any] = {
        "name": name,
        "cite": entry.cite if entry else None,
        "about": entry.story if entry else None,
        "parent": entry.parent if entry else None,
        "against": against,
        "diff": config(against).diff(made) if against else {},
    }
    cost = made.cost(length, memory)
    _print_json(about, made, cost) if json else _print_page(about, made, cost)


def _print_json(about: dict[str, Any], made: Model.Config, cost: Cost) -> None:
    import json

    print(json.dumps({**about, "hash": made.hash, "config": made.dump(), "cost": cost.dump()}, indent=2))


def _print_page(about: dict[str, Any], made: Model.Config, cost: Cost) -> None:
    from rich.console import Console
    from rich.text import Text

    from sublayer.cli.words import coloured

    console = Console()
    console.print(Text(about["name"], style="bold"), Text(made.tag, style="dim"))
    if about["about"]:
        for paragraph in about["about"].split("\n\n"):
            console.print(" ".join(paragraph.split()), highlight=False, markup=False)
        console.print(about["cite"], style="dim", highlight=False, markup=False)
    console.print()
    for name, stack in made.stacks.items():
        console.print(f"{name or 'layout'}  ", coloured(stack.layout), sep="")
    _print_diff(console, about)
    _print_config(console, made)
    _print_cost(console, cost)


def _print_diff(console: Console, about: dict[str, Any]) -> None:
    from rich.table import Table
    from rich.text import Text

    from sublayer.cli.words import plain

    if not about["diff"]:
        return
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    table.add_column(f"against {about['against']}", overflow="fold")
    table.add_column("there", style="red", overflow="fold")
    table.add_column("here", style="green", overflow="fold")
    for path, (there, here) in about["diff"].items():
        table.add_row(path, Text(plain(there)), Text(plain(here)))
    console.print()
    console.print(table)


def _print_config(console: Console, made: Model.Config) -> None:
    console.print("\n[bold]config[/bold]  ", end="")
    console.print(f"sha256 {made.hash[:12]}", style="dim", highlight=False)
    console.print(made.to_toml().rstrip(), markup=False)


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
        table.add_row("  stack, memory kept as keys and values", short(work.frozen_stack))
    console.print()
    console.print(table)
