"""Tables and values in Markdown, for the pages that are made from the code."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Sequence
from typing import Any

from sublayer.cli.words import plain


def table(head: Sequence[str], rows: Iterable[Sequence[str]], numbers: Sequence[int] = ()) -> str:
    """A table; the columns in `numbers` are set to the right."""
    rules = ["---:" if column in numbers else "---" for column in range(len(head))]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in (head, rules, *rows))


def code(value: Any) -> str:
    """A value of a config; — where there is none."""
    return "—" if value is None else f"`{plain(list(value) if isinstance(value, tuple) else value)}`"


def first_lines(thing: Any) -> str:
    """The docstring of a class, function or module up to a blank line; further where that line announces more."""
    first, *more = (inspect.getdoc(thing) or "").split("\n\n")
    return " ".join(f"{first} {more[0]}".split() if first.endswith(":") and more else first.split())
