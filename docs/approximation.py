"""For a card: how far an attention that approximates another is from the exact one, measured by running both."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import features
from tables import table

from sublayer.evaluation.approximation import DRAWS, TOKENS, approximation_errors
from sublayer.nn.model import Model
from sublayer.papers import registry

DEVIATIONS = (0.5, 1.0)


def section(entry: registry.Paper, config: Model.Config) -> Iterator[str]:
    """At the paper's own setting, and at those that it names; nothing where nothing is approximated."""
    if not _errors(config):
        return
    yield "## Error against exact attention"
    yield (
        f"|y − y\\*| / |y\\*| of the attention's outputs on {TOKENS} tokens, y\\* the exact ones with the same "
        f"weights; mean of {DRAWS} draws. Queries, keys and values are normal: the larger their deviation, the more "
        "weights differ."
    )
    rows = [("as above", config)]
    rows += [(f"`{key}={value}`", config.but({key: value})) for key, values in entry.nearer.items() for value in values]
    cells = [(setting, *(f"{error:.3f}" for error in _errors(one))) for setting, one in rows]
    yield table(("setting", *(f"error, deviation {one:g}" for one in DEVIATIONS)), cells, numbers=[1, 2])
    if (Path(__file__).parent / "images" / f"{entry.name}.svg").exists():
        yield f"![Error by the number of features](../../images/{entry.name}.svg)"
        yield (
            f"Mean squared errors on {features.TOKENS:,} tokens in heads of {features.SIZE}, with quartiles of "
            f"{features.SAMPLES} samples. `python docs/features.py` draws them."
        )


_known: dict[str, list[float]] = {}


def _errors(config: Model.Config) -> list[float]:
    """At each deviation, of the first part that approximates."""
    if config.hash not in _known:
        parts = {part.hash: part for stack in config.stacks.values() for part in stack.parts}
        found = (approximation_errors(part, config.dim, DEVIATIONS) for part in parts.values())
        _known[config.hash] = next(filter(None, found), [])
    return _known[config.hash]
