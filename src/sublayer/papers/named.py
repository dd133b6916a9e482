"""Configs by name: of a paper, or of a JSON or TOML file; plug-ins that are installed are loaded first."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sublayer.nn.config import ConfigError
from sublayer.nn.model import Model
from sublayer.papers import registry
from sublayer.plugins import hinting, load_installed_plugins


def config(name: str, changes: Mapping[str, Any] | None = None, /, **fields: Any) -> Model.Config:
    """The config of a paper, or of a JSON or TOML file: `sublayer.config("gpt2", {"s.heads": 4}, dim=256)`."""
    load_installed_plugins()
    base = _from_file(Path(name)) if name.endswith((".json", ".toml")) else registry.config(name)
    return base.but(changes, **fields) if changes or fields else base


def names(pattern: str = "*") -> list[str]:
    """The papers whose name matches, parents before children."""
    load_installed_plugins()
    return registry.names(pattern)


def _from_file(path: Path) -> Model.Config:
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise ConfigError(f"{path}: there is no such file; give a paper's name, or a JSON or TOML config") from None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: cannot be read: {error}") from None
    try:
        with hinting():
            return Model.Config.from_json(text) if path.suffix == ".json" else Model.Config.from_toml(text)
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from None
