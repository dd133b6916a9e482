"""Any model, with all sizes small: the same parts in the same order."""

from __future__ import annotations

from typing import Any, TypeVar

from sublayer.nn import layout as layouts
from sublayer.nn.config import Config
from sublayer.nn.model import Model

AnyConfig = TypeVar("AnyConfig", bound=Config)

SIZES: dict[str, Any] = {
    "vocab": 61,
    "source_vocab": 53,
    "dim": 32,
    "heads": 4,
    "inner": 24,
    "rank": 12,
    "length": 5,
    "size": 4,
    "limit": 176,
    "clip": 3,
    "clamp": 6,
    "ramp": 2,
    "cutoffs": [17, 37],
    "classes": 3,
}
"""What each named size shrinks to; None stays None."""


def small(config: Model.Config) -> Model.Config:
    """The same parts in the same order, each repeat at most twice, all sizes small."""
    return type(config).parse(_shrink(config.dump()))


def small_member(config: AnyConfig) -> AnyConfig:
    """A member of any family with its sizes small."""
    return type(config).parse(_shrink(config.dump()))


def _shrink(data: Any, key: str = "") -> Any:
    if isinstance(data, dict):
        shrunk = {name: _shrink(value, name) for name, value in data.items()}
        if isinstance(data.get("kv_heads"), int):
            shrunk["kv_heads"] = max(1, SIZES["heads"] * data["kv_heads"] // data["heads"])
        if isinstance(data.get("factor"), int):
            shrunk["factor"] = min(data["factor"], 2)
        if "ramp" in data:
            shrunk |= {"limit": SIZES["length"], "start": 0.5}
        return {**shrunk, "vary": {}} if "vary" in data else shrunk
    if key == "layout":
        return layouts.write(_shorten(layouts.parse(data)))
    return SIZES[key] if key in SIZES and data is not None else data


def _shorten(tree: layouts.Tree) -> layouts.Tree:
    return [item if isinstance(item, str) else (_shorten(item[0]), min(item[1], 2)) for item in tree]
