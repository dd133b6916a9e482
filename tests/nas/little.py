"""A space of small decoders, and figures for them that need no clock."""

from random import Random
from typing import Any

import sublayer
from sublayer.nas import Space, Stage, search
from sublayer.nas.smallest import smallest as find_smallest
from sublayer.nas.sources import Sources

CHOICES = {
    "layout": "(sf)x1|(sf)x2|(sf)x4|(sff)x2|par(5)",
    "dim": "32..128/16",
    "s.heads": "each(1|2|4)",
    "f": 'dense|{"kind": "glu", "activation": "swish"}',
    "f.inner": "each(32..256/32)",
}
FEW = {"population": 10, "iterations": 3}
"""10 candidates and 3 times 8 more."""


def space(choices: dict[str, Any] | None = None, rules: tuple[str, ...] = ("f.inner>1*dim",)) -> Space:
    base = sublayer.config("gpt2", {"s.heads": 2}, vocab=64, layout="(sf)x5")
    return Space.of(base, CHOICES if choices is None else choices, rules)


def evaluate(config) -> dict[str, float]:
    """Time that goes with the work and the number of parts, memory with the weights and the width."""
    cost, parts = config.cost(), config.stack.parts
    heads = sum(getattr(part, "heads", 0) for part in parts)
    return {"latency": cost.flops.total * 1e-9 + len(parts) * 1e-4 + heads * 1e-5, "memory": 4 * cost.params}


def smallest():
    """The config of the smallest candidate."""
    return find_smallest(space(), Random(0)).config


class Evaluate(Stage):
    def figures(self, config):
        return evaluate(config)


def find(out, meter=None, **more):
    return search(space(), out, sources=Sources([Evaluate()], meter), **{**FEW, **more})
