"""For a card: how far an attention that approximates another is from the exact one, measured by running both."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

from tables import table

from sublayer.evaluation.approximation import DRAWS, TOKENS, approximation_error
from sublayer.nn.model import Model
from sublayer.papers import registry


def section(entry: registry.Paper, config: Model.Config) -> Iterator[str]:
    """At the paper's own setting, and at those that it names; nothing where nothing is approximated."""
    own = _error(config)
    if own is None:
        return
    yield "## Error against exact attention"
    yield (
        f"|y − y\\*| / |y\\*| of the attention's outputs on {TOKENS} tokens, y\\* the exact ones with the same weights; queries, "
        f"keys and values are standard normal. Mean of {DRAWS} draws."
    )
    rows = [("as above", f"{own:.3f}")]
    for key, values in entry.nearer.items():
        rows += [(f"`{key}={value}`", f"{_error(config.but({key: value})):.3f}") for value in values]
    yield table(("setting", "error"), rows, numbers=[1])


@cache
def _error(config: Model.Config) -> float | None:
    """Of the first part that approximates."""
    parts = (part for stack in config.stacks.values() for part in stack.parts)
    found = (approximation_error(part, config.dim) for part in dict.fromkeys(parts))
    return next((error for error in found if error is not None), None)
