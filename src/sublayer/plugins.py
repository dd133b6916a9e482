"""Plug-ins: modules outside the package that register parts, papers and other kinds when they are imported."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from importlib.metadata import entry_points
from typing import Any

from sublayer.nn.config import Config, ConfigError, UnknownKindError


def load_plugin(module: str) -> None:
    """Import a module that registers parts or papers of its own."""
    try:
        importlib.import_module(module)
    except ImportError as error:
        raise ConfigError(
            f"plug-in {module!r} cannot be imported: {error}. Give a module name that Python finds, as in "
            "--plugin my_parts with my_parts.py in the current folder"
        ) from None


@cache
def load_installed_plugins() -> None:
    """Import what installed packages declare under the entry point `sublayer.plugins`."""
    for plugin in entry_points(group="sublayer.plugins"):
        load_plugin(plugin.module)


def modules_of(*configs: Config) -> list[str]:
    """The modules outside the package whose kinds these configs have, which --plugin loads; for a run to record."""
    found = {type(one).__module__ for config in configs for one in _inside(config)}
    return sorted(name for name in found if name.split(".")[0] not in ("sublayer", "__main__"))


def _inside(value: Any) -> Iterator[Config]:
    """A config and those in its fields, at any depth."""
    if isinstance(value, Config):
        yield value
        for name in type(value).model_fields:
            yield from _inside(getattr(value, name))
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from _inside(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _inside(item)


@contextmanager
def hinting(plugins: Sequence[str] = ()) -> Iterator[None]:
    """Where a stored config has an unknown kind, name the remedy. plugins: the modules whose kinds it has, if known."""
    try:
        yield
    except UnknownKindError as error:
        options = " ".join(f"--plugin {module}" for module in plugins)
        remedy = f"it was made with {options}, so add it" if plugins else "for a kind of your own, add --plugin MODULE"
        raise ConfigError(f"{str(error).rstrip('.?')}; {remedy}") from None
