"""Read genes back from a config."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from sublayer.nas.choice import Choice
from sublayer.nn import layout as layouts
from sublayer.nn.config import Config, ConfigError
from sublayer.nn.model import Model


def read_gene(
    base: Model.Config, config: Model.Config, key: str, choice: Choice, inside: Iterable[str]
) -> list[Any] | None:
    """The chosen value, or one for each occurrence; None where a value is not among the choice's.

    inside: keys below this one that have choices of their own, such as f.inner where the key is f.
    """
    path = key.split(",")[0]
    fields = [other.removeprefix(f"{path}.") for other in inside]
    found = _found(config, path)
    if found is None:
        return None
    genes = [_chosen(base, path, choice, value, fields) for value in found]
    if any(gene is None for gene in genes):
        return None
    values = [choice.values[gene] for gene in genes if gene is not None]
    if choice.each:
        return values
    return values[:1] if values and all(value == values[0] for value in values) else None


def same(one: Model.Config, other: Model.Config) -> bool:
    """Whether two configs are one model: one may vary a letter by a list that the other does not need."""
    if type(one) is not type(other) or list(one.stacks) != list(other.stacks):
        return False
    if any(mine.parts != theirs.parts for mine, theirs in zip(one.stacks.values(), other.stacks.values(), strict=True)):
        return False
    return _without_alphabet(one) == _without_alphabet(other)


def _found(config: Model.Config, path: str) -> list[Any] | None:
    """The value at a path, or one for each occurrence of its letter: none for a letter that does not occur."""
    where = config.locate(path, config.dump())
    if where is None:
        return None
    stack = next((stack for stack in config.stacks.values() if stack is getattr(config, where[0], None)), None)
    if stack is None or where[1:2] != ["alphabet"]:
        value = _reach(config, where)
        return None if value is MISSING else [value]
    word = layouts.expand(stack.layout)
    at = [_reach(part, where[3:]) for letter, part in zip(word, stack.parts, strict=True) if letter == where[2]]
    return None if MISSING in at else at


MISSING = object()


def _reach(config: Any, path: list[str]) -> Any:
    for step in path:
        config = getattr(config, step, MISSING)
    return config


def _chosen(base: Model.Config, path: str, choice: Choice, found: Any, fields: list[str]) -> int | None:
    """The index of a value in its choice; a part is compared without those of its fields that are choices, too."""
    if not isinstance(found, Config):
        plain = list(found) if isinstance(found, tuple) else found
        return next((n for n, value in enumerate(choice.values) if value == plain), None)
    wanted = _without(found.dump(), fields)
    for n, value in enumerate(choice.values):
        try:
            made = type(found).parse(value)
        except ConfigError:
            continue
        if _without(made.dump(), fields) == wanted:
            return n
    return None


def _without(data: dict[str, Any], fields: list[str]) -> dict[str, Any]:
    return {name: value for name, value in data.items() if name not in fields}


def _without_alphabet(config: Model.Config) -> dict[str, Any]:
    """The config without its letters, whose parts were compared one by one."""
    data = config.dump()
    for stack in data.values():
        if isinstance(stack, dict) and "alphabet" in stack:
            stack.pop("alphabet")
            stack.pop("vary", None)
    return data
