"""`sublayer list`: the family as a tree, with what each member costs."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter


def list_papers(
    pattern: str = "*",
    /,
    *,
    plugin: Annotated[list[str] | None, Parameter(negative="")] = None,
    json: Annotated[bool, Parameter(negative="")] = False,
) -> None:
    """The family as a tree, with what each member costs.

    Examples: sublayer list · sublayer list xl · sublayer list 'par*' --json

    Parameters
    ----------
    pattern
        Names to show: a word matches anywhere, * and ? are wild.
    plugin
        A module with parts or papers of your own; may be given more than once.
    json
        Print JSON for other programs.
    """
    import sublayer
    from sublayer.cli.words import load_plugins

    load_plugins(plugin or [])
    names = sublayer.names(pattern)
    if not names:
        known = ", ".join(sublayer.names())
        raise ValueError(f"no paper matches {pattern!r}; there are {known}")
    _print_json(names) if json else _print_tree(names)


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
    from rich.table import Table
    from rich.text import Text

    from sublayer import config
    from sublayer.cli.words import coloured, short
    from sublayer.papers import registry

    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("paper", no_wrap=True)
    table.add_column("layout", no_wrap=True)
    for title in ("params", "decoder", "FLOPs"):
        table.add_column(title, justify="right", no_wrap=True)
    table.add_column("what it changes", style="dim", ratio=1, no_wrap=True, overflow="ellipsis")
    for name in names:
        made = config(name)
        cost = made.cost()
        layout = Text(" → ").join(coloured(stack.layout) for stack in made.stacks.values())
        figures = [short(figure) for figure in (cost.params, cost.decoder_params, cost.flops.total)]
        table.add_row(_branch(name, names) + name, layout, *figures, registry.find(name).summary)
    console = Console()
    console.print(table)
    length = config(names[0]).cost().flops.length
    console.print(f"FLOPs: one pass over {length} new tokens, with the memory full where there is one.", style="dim")


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
