"""`sublayer list`: the family as a tree with its cost, and the tasks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from sublayer.cli.start import import_torch

if TYPE_CHECKING:
    from rich.table import Table
    from rich.text import Text

TITLES = ("paper", "layout", "params", "decoder", "FLOPs", "what it changes")
GAP = 2
"""Spaces between columns."""
LEGIBLE = 30
"""The last column is left out where less room than this remains for it."""


def list_papers(
    pattern: str = "*",
    /,
    *,
    tasks: Annotated[bool, Parameter(negative="")] = False,
    plugin: Annotated[list[str] | None, Parameter(negative="")] = None,
    json: Annotated[bool, Parameter(negative="")] = False,
) -> None:
    """The family as a tree, with the cost of each member.

    Examples: sublayer list · sublayer list xl · sublayer list 'par*' --json · sublayer list --tasks

    Parameters
    ----------
    pattern
        Names to show: a word matches anywhere in a name, * and ? are wildcards.
    tasks
        List the tasks for sublayer train --data task:NAME instead, each with its data.… keys.
    plugin
        A module with parts or papers of your own; may be given more than once.
    json
        Print JSON.
    """
    import_torch()
    import sublayer
    from sublayer.cli.words import load_plugins

    load_plugins(plugin or [])
    if tasks:
        _print_tasks(json)
        return
    names = sublayer.names(pattern)
    if not names:
        known = ", ".join(sublayer.names())
        raise ValueError(f"no paper matches {pattern!r}; there are {known}")
    _print_json(names) if json else _print_tree(names)


def _print_tasks(as_json: bool) -> None:
    import json
    from inspect import getdoc

    from rich.console import Console
    from rich.table import Table

    from sublayer.data import Task
    from sublayer.runs.wording import change

    configs = {name: Task.named(name) for name in Task.names()}
    about = {name: " ".join((getdoc(config.owner) or "").split("\n\n")[0].split()) for name, config in configs.items()}
    keys = {name: {key: getattr(config, key) for key in config.keys()} for name, config in configs.items()}  # noqa: SIM118
    if as_json:
        print(json.dumps([{"name": name, "about": about[name], "keys": keys[name]} for name in configs], indent=2))
        return
    table = Table(box=None, pad_edge=False, padding=(0, GAP, 1, 0), header_style="bold")
    for title in ("task", "question", "keys"):
        table.add_column(title, overflow="fold", min_width=16)
    for name in configs:
        words = " ".join(change(f"data.{key}", value) for key, value in keys[name].items())
        table.add_row(f"task:{name}", about[name], words)
    Console(highlight=False).print(table)


def _print_json(names: list[str]) -> None:
    import json

    from sublayer import config
    from sublayer.papers import registry

    rows = []
    for name in names:
        entry, made = registry.find(name), config(name)
        rows.append({"name": name, "parent": entry.parent, "cite": entry.cite, "cost": made.cost().dump()})
    print(json.dumps(rows, indent=2))


def _print_tree(names: list[str]) -> None:
    from rich.console import Console

    from sublayer import config

    console = Console()
    rows = [_row(name, names) for name in names]
    widths = [max(len(cell) for cell in column) for column in zip(TITLES, *rows, strict=True)]
    needed = sum(width + GAP for width in widths[:-1])
    if console.width < needed:  # let the terminal wrap instead of cutting columns off
        console = Console(width=needed)
    console.print(_table(rows, widths, console.width - needed))
    length = config(names[0]).cost().flops.length
    console.print(f"FLOPs: one pass over {length} new tokens, with the memory full where there is one.", style="dim")


def _row(name: str, shown: list[str]) -> tuple[Text | str, ...]:
    from rich.text import Text

    from sublayer import config
    from sublayer.cli.words import coloured, short
    from sublayer.papers import registry

    made = config(name)
    cost = made.cost()
    layout = Text(" → ").join(coloured(stack.layout) for stack in made.stacks.values())
    figures = (short(figure) for figure in (cost.params, cost.decoder_params, cost.flops.total))
    return Text(_branch(name, shown) + name), layout, *figures, Text(registry.find(name).summary)


def _table(rows: list[tuple[Text | str, ...]], widths: list[int], left: int) -> Table:
    """All but the last column at full width, and the last in what is left, if it can be read there."""
    from rich.table import Table

    table = Table(box=None, pad_edge=False, padding=(0, GAP, 0, 0), header_style="bold")
    for n, (title, width) in enumerate(zip(TITLES[:-1], widths[:-1], strict=True)):
        table.add_column(title, justify="left" if n < 2 else "right", min_width=width, no_wrap=True)
    if left >= LEGIBLE:
        table.add_column(TITLES[-1], style="dim", max_width=left, no_wrap=True, overflow="ellipsis")
    for row in rows:
        table.add_row(*row[: len(table.columns)])
    return table


def _branch(name: str, shown: list[str]) -> str:
    """The lines of the tree before a name, among those that are shown."""
    from sublayer.papers import registry

    lines = ""
    entry = registry.find(name)
    while entry.parent in shown:
        siblings = [child for child in registry.children(entry.parent) if child in shown]
        last = siblings[-1] == entry.name
        lines = (("└─ " if last else "├─ ") if not lines else ("   " if last else "│  ")) + lines
        entry = registry.find(entry.parent)
    return lines
