"""What `import sublayer` offers: configs by name or file, changed by dotted keys."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from functools import cache
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

from sublayer.nn.config import ConfigError
from sublayer.nn.model import Model
from sublayer.papers import registry


def config(name: str, changes: Mapping[str, Any] | None = None, /, **fields: Any) -> Model.Config:
    """The config of a paper, or of a JSON or TOML file: `sublayer.config("gpt2", {"s.heads": 4}, dim=256)`."""
    load_installed_plugins()
    base = _from_file(Path(name)) if name.endswith((".json", ".toml")) else registry.config(name)
    return base.but(changes, **fields) if changes or fields else base


def names(pattern: str = "*") -> list[str]:
    """The papers whose name matches, parents before children."""
    load_installed_plugins()
    return registry.names(pattern)


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


def _from_file(path: Path) -> Model.Config:
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise ConfigError(f"{path}: there is no such file; give a paper's name, or a JSON or TOML config") from None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: cannot be read: {error}") from None
    try:
        return Model.Config.from_json(text) if path.suffix == ".json" else Model.Config.from_toml(text)
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from None
