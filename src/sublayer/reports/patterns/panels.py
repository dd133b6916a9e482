"""Panels: the layers and heads of a model that see the same are drawn once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from typing import TYPE_CHECKING, Any, TypeVar

from torch import Tensor

from sublayer.nn.config import Config
from sublayer.reports.charts import thin
from sublayer.runs.wording import change

if TYPE_CHECKING:
    from sublayer.nn.attention import Pattern
    from sublayer.nn.model import Model
    from sublayer.nn.stack import Stack

T = TypeVar("T")
KINDS = 4
"""Of heads in a layer; where there are more, most likely each is drawn by lot, and two show that."""


@dataclass(frozen=True)
class Panel:
    """Attention heads that see the same."""

    pattern: Pattern.Config
    sees: int | None = None
    """How many earlier tokens they see at most, whatever the pattern allows; None for all."""
    stack: str = ""
    layers: tuple[int, ...] = ()
    """The attention layers of the stack, counted from 1; none for all."""
    heads: tuple[int, ...] = ()
    """Counted from 1; none for all."""

    def seen(self, i: Tensor, j: Tensor) -> Tensor:
        """Whether a query at position i sees a key at position j, for tensors that broadcast."""
        seen = self.pattern.sees(i, j)
        return seen if self.sees is None else seen & (i - j <= self.sees)

    @property
    def caption(self) -> tuple[str, ...]:
        """`layers 1–6`, `heads 1–4`: a line each; nothing where it is true of all."""
        layers = counted("layer", self.layers) if self.layers else ""
        heads = counted("head", self.heads) if self.heads else ""
        return tuple(line for line in (f"{self.stack} {layers}".strip(), heads) if line)

    @property
    def name(self) -> str:
        return ", ".join(self.caption)

    def dump(self) -> dict[str, Any]:
        where = {"stack": self.stack, "layers": list(self.layers) or "all", "heads": list(self.heads) or "all"}
        return {**where, "pattern": self.pattern.dump(), "reach": self.sees}


def panels(config: Model.Config) -> list[Panel]:
    """All that differ, in the order of stacks, layers and heads; none where no part of the model has a pattern."""
    return [panel for name, stack in config.stacks.items() for panel in _of_stack(name, stack)]


def without(config: Model.Config) -> dict[str, int]:
    """The kinds of parts that attend without a pattern, and how many there are."""
    parts = [part for stack in config.stacks.values() for part in stack.parts if part.attends and not part.patterns]
    tags = [part.tag for part in parts]
    return {tag: tags.count(tag) for tag in dict.fromkeys(tags)}


def chosen(found: Sequence[Panel], most: int) -> list[Panel]:
    """At most so many: of each stack the first, the middle and the last layers, and of these a few heads."""
    if len(found) <= most:
        return list(found)
    kept: list[Panel] = []
    for _, of_stack in groupby(found, key=lambda panel: panel.stack):
        layers = [list(group) for _, group in groupby(of_stack, key=lambda panel: panel.layers)]
        for heads in thin(layers, 3):
            kept += heads if len(heads) <= KINDS else thin(heads, 2)
    return kept[:most]


def balanced(count: int, most: int) -> int:
    """How many to put in a row, so that rows are about equally long: of five, three and two."""
    return -(-count // -(-count // most))


def counted(noun: str, numbers: Sequence[int]) -> str:
    """`layer 3`, `layers 1–6, 9`, `layers 1, 3 … 11`."""
    return f"{noun}{'s' if len(numbers) > 1 else ''} {_listed(numbers)}"


def _listed(numbers: Sequence[int]) -> str:
    steps = {after - before for before, after in pairwise(numbers)}
    if len(numbers) > 3 and len(steps) == 1 and steps != {1}:
        return f"{numbers[0]}, {numbers[1]} … {numbers[-1]}"
    runs = [[n for _, n in run] for _, run in groupby(enumerate(numbers), key=lambda pair: pair[1] - pair[0])]
    return ", ".join(f"{run[0]}" if len(run) == 1 else f"{run[0]}–{run[-1]}" for run in runs)


def _of_stack(name: str, stack: Stack.Config) -> list[Panel]:
    attentions = [part for part in stack.parts if part.patterns]
    layers = _alike([(part.patterns, part.sees) for part in attentions])
    found = []
    for (patterns, limit), numbers in layers.items():
        heads = _alike(patterns)
        for pattern, of in heads.items():
            among = numbers if len(layers) > 1 else ()
            found.append(Panel(pattern, limit, name, among, of if len(heads) > 1 else ()))
    return found


def _alike(items: Sequence[T]) -> dict[T, tuple[int, ...]]:
    """Equal items once, with their numbers from 1."""
    found: dict[T, tuple[int, ...]] = {}
    for number, item in enumerate(items, 1):
        found[item] = (*found.get(item, ()), number)
    return found


def in_words(pattern: Config) -> str:
    """`union(window size=32, global first=1 count=1)`: a pattern in one line, with its numbers and what is not as by
    default."""
    plain, inner = [pattern.tag], []
    for name, field in type(pattern).model_fields.items():
        value = getattr(pattern, name)
        if isinstance(value, Config):
            inner.append(in_words(value))
        elif isinstance(value, tuple) and value and isinstance(value[0], Config):
            inner += [in_words(one) for one in value]
        elif value != field.default or type(value) is int:
            plain.append(change(name, value))
    return " ".join(plain) + (f"({', '.join(inner)})" if inner else "")
