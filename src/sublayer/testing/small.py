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
    "shape": [8, 11, 2],
    "orders": [[0, 1], [1, 0]],
}
"""What each named size shrinks to; None stays None."""
AT_MOST: dict[str, int] = {
    "stride": 5,
    "summary": 2,
    "block": 3,
    "before": 4,
    "smallest": 2,
    "width": 12,
    "buckets": 4,
    "chunk": 3,
    "rounds": 2,
    "clusters": 3,
    "window": 4,
    "head_dim": 8,
    "eval_rounds": 3,
    "rows": 3,
    "columns": 4,
    "above": 2,
    "beside": 3,
    "among": 24,
    "radius": 4,
    "segment": 5,
    "features": 24,
    "compressed": 4,
    "rate": 3,
    "group": 2,
    "neighbours": 3,
}
"""Sizes of patterns, segments, random features and compressed memories, left as they are where they are smaller."""


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
        if "rank" in data and "block" in data:  # a rank of its blocks, which must stay smaller than they are
            shrunk["rank"] = min(data["rank"], max(1, shrunk["block"] - 1))
        if "ramp" in data:
            shrunk |= {"limit": SIZES["length"], "start": 0.5}
        return {**shrunk, "vary": {}} if "vary" in data else shrunk
    if key == "layout":
        return layouts.write(_shorten(layouts.parse(data)))
    if key in AT_MOST and data is not None:
        return min(data, AT_MOST[key])
    return SIZES[key] if key in SIZES and data is not None else data


def _shorten(tree: layouts.Tree) -> layouts.Tree:
    return [item if isinstance(item, str) else (_shorten(item[0]), min(item[1], 2)) for item in tree]
