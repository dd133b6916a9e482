"""Any model, made small enough to try in a blink, with everything that makes it itself kept."""

from __future__ import annotations

from typing import Any

from sublayer.nn import layout as layouts
from sublayer.nn.attention import Full, MultiHead
from sublayer.nn.feedforward import Dense
from sublayer.nn.memory import NoMemory
from sublayer.nn.model import Decoder, Encoder, Model
from sublayer.nn.part import Part
from sublayer.nn.stack import Plain

SIZES: dict[str, Any] = {
    "vocab": 61,
    "source_vocab": 53,
    "dim": 32,
    "heads": 4,
    "inner": 24,
    "rank": 12,
    "length": 5,
    "size": 4,
    "limit": 96,
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


def around(part: Part.Config, *, causal: bool = True) -> Model.Config:
    """A small model with the part in it: attention, the part, feed-forward, twice; the part is `p`."""
    attention = MultiHead.Config(heads=4)
    if not causal:
        attention = attention.but(pattern=Full.Config(), memory=NoMemory.Config())
    alphabet = {"s": attention, "p": part, "f": Dense.Config(inner=24)}
    stack = Plain.Config(layout="(spf)x2", alphabet=alphabet)
    return (Decoder if causal else Encoder).Config(vocab=61, dim=32, stack=stack)
