"""Papers: each a function from its parent's config to its own, with its citation and the facts we check."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatch
from functools import cache
from typing import Any

import sublayer.papers
from sublayer.nn.config import ConfigError, unknown
from sublayer.nn.model import Model


@dataclass(frozen=True)
class Paper:
    name: str
    parent: str | None
    cite: str
    change: Callable[..., Model.Config]
    facts: Mapping[str, int] = field(default_factory=dict)
    """Entries of the cost (`params`, `decoder_params`) that must be exact."""
    nearer: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    """For an attention that approximates another: a key, and values that bring it nearer to the exact one step by step.
    The card has the error at each."""

    @property
    def summary(self) -> str:
        """The first line of its docstring."""
        return (self.change.__doc__ or "").strip().splitlines()[0]

    @property
    def story(self) -> str:
        """Its whole docstring."""
        lines = (self.change.__doc__ or "").strip().splitlines()
        return "\n".join([lines[0], *(line.removeprefix("    ") for line in lines[1:])])


PAPERS: dict[str, Paper] = {}


def paper(
    name: str,
    *,
    cite: str,
    parent: str | None = None,
    facts: Mapping[str, int] | None = None,
    nearer: Mapping[str, Sequence[Any]] | None = None,
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register a function under a name: `base: Config → Config`, or without argument where there is no parent."""

    def enter(change: Callable[..., Any]) -> Callable[..., Any]:
        known = PAPERS.get(name)
        if known is not None and known.change.__module__ != change.__module__:
            raise ConfigError(f"paper {name!r} is already defined by {known.change.__module__}; choose another name")
        PAPERS[name] = Paper(name, parent, cite, change, facts or {}, nearer or {})
        config.cache_clear()
        return change

    return enter


@cache
def discover() -> None:
    """Import every file of this room, so that a new paper is one new file."""
    for module in pkgutil.iter_modules(sublayer.papers.__path__):
        importlib.import_module(f"sublayer.papers.{module.name}")


def find(name: str) -> Paper:
    discover()
    if name not in PAPERS:
        raise ConfigError(unknown("paper", name, PAPERS))
    return PAPERS[name]


@cache
def config(name: str) -> Model.Config:
    """The paper's config: its parent's, changed."""
    entry = find(name)
    return entry.change() if entry.parent is None else entry.change(config(entry.parent))


def names(pattern: str = "*") -> list[str]:
    """Names that match a pattern (`*xl*`; a plain word matches anywhere), parents before children."""
    discover()
    pattern = pattern if any(mark in pattern for mark in "*?[") else f"*{pattern}*"
    return [name for name in _in_tree_order() if fnmatch(name, pattern)]


def children(name: str | None) -> list[str]:
    discover()
    return sorted(entry.name for entry in PAPERS.values() if entry.parent == name)


def _in_tree_order(root: str | None = None) -> list[str]:
    return [name for child in children(root) for name in (child, *_in_tree_order(child))]
