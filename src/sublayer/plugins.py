"""Plug-ins: modules outside the package that register parts, papers and other kinds when they are imported."""

from __future__ import annotations

import importlib
from functools import cache
from importlib.metadata import entry_points

from sublayer.nn.config import ConfigError


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
