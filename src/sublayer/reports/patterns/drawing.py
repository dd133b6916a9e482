"""A drawing: the panels of a model, each with its cells."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sublayer.reports.patterns.cells import Cells, cells
from sublayer.reports.patterns.length import telling_length
from sublayer.reports.patterns.panels import Panel, chosen, panels, without
from sublayer.reports.patterns.runs import runs

if TYPE_CHECKING:
    from sublayer.nn.model import Model

MOST_TOKENS = 16_384
"""More would take minutes: every pair is asked."""
MOST_PANELS = 12
ACROSS = 128
"""Cells along a panel of a picture."""


@dataclass(frozen=True)
class Drawing:
    title: str
    length: int
    panels: Sequence[tuple[Panel, Cells]]
    left_out: int
    """How many panels were too many to be drawn."""
    without: dict[str, int]
    """The parts that attend without a pattern, by kind."""

    @property
    def side(self) -> int:
        """Tokens along a cell."""
        return self.panels[0][1].side

    @property
    def note(self) -> str:
        """What a picture of it must say."""
        shade = f"; a cell is {self.side} × {self.side} pairs, shaded by the share seen" if self.side > 1 else ""
        return f"{self.length:,} tokens: a row is a query, a column a key{shade}"

    @property
    def rest(self) -> list[str]:
        """What is not in the picture: a line, or none."""
        more = [f"{self.left_out} more squares, of other layers and heads that differ"] if self.left_out else []
        others = [f"{tag} ×{count}, which has no pattern" for tag, count in self.without.items()]
        return [f"not drawn: {'; '.join(more + others)}"] if more or others else []

    def dump(self) -> dict[str, Any]:
        drawn = [
            {**panel.dump(), **figures(found), "queries": runs(panel.seen, self.length)} for panel, found in self.panels
        ]
        return {"name": self.title, "length": self.length, "panels": drawn, "left_out": self.left_out}


def figures(found: Cells) -> dict[str, Any]:
    return {"seen": found.seen, "keys_per_token": found.keys, "back": found.back, "ahead": found.ahead}


def draw(
    title: str, config: Model.Config, length: int | None = None, across: Callable[[int], int] = lambda _: ACROSS
) -> Drawing:
    """Who sees whom in a model.

    length: number of tokens; if not given, as many as the pattern of the widest view needs to be recognised.
    across: from the number of panels to the cells along one of them.
    """
    found = panels(config)
    if not found:
        kinds = sorted({part.tag for stack in config.stacks.values() for part in stack.parts})
        raise ValueError(
            f"{title}: none of its parts has a pattern of who sees whom ({', '.join(kinds)}); show a model with "
            "self-attention, such as sublayer show gpt2 --pattern"
        )
    if length is not None and not 1 <= length <= MOST_TOKENS:
        raise ValueError(f"length {length}: a pattern is drawn for 1 to {MOST_TOKENS:,} tokens, as every pair is asked")
    kept = chosen(found, MOST_PANELS)
    length = length or max(telling_length(panel, config.end) for panel in kept)
    made = [(panel, cells(panel.seen, length, across(len(kept)))) for panel in kept]
    return Drawing(title, length, made, len(found) - len(kept), without(config))
