"""What a caller writes: keys (`dim` of the model, `data.…`, `train.…`) and the path of a text."""

from __future__ import annotations

import re
from collections.abc import Mapping
from glob import has_magic
from pathlib import Path
from typing import Any

from sublayer.nn import layout as layouts

PREFIX = re.compile(r"[a-z]{2,}:")
"""Of data that is no text: `task:copy`, `image:photos/*.png`."""


def merged(common: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    """Common changes with `own` made after them; a layout rule of its own, such as par(5), stands on the common layout.

    A key that both have keeps its place among the common ones.
    """
    return {**common, **{key: follow(common.get(key), value) for key, value in own.items()}}


def follow(before: Any, value: Any) -> Any:
    """The value of a key that had another one before: the same, unless it is a rule for a layout."""
    return layouts.put_on(value, before) if isinstance(before, str) and layouts.needs_base(value) else value


def absolute(data: str) -> str:
    """A file, folder or pattern, wherever the run is resumed from; what has a prefix (`task:copy`) is left as it is."""
    path = Path(data).expanduser()
    pattern = has_magic(data) and not PREFIX.match(data)
    return str(Path.cwd() / path) if (data and path.exists()) or pattern else data


def split(changes: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
    """The model's keys, and those of data and train without their prefix."""
    of: dict[str, dict[str, Any]] = {"data": {}, "train": {}}
    model = {}
    for key, value in changes.items():
        room, _, rest = key.partition(".")
        if room in of and rest:
            of[room][rest] = value
        else:
            model[key] = value
    return model, of
