"""What one sublayer of each letter takes, from whatever tells the latency of whole models."""

from __future__ import annotations

from collections.abc import Callable

from sublayer.nas.supernet.stack import IDENTITY
from sublayer.nn.model import Model
from sublayer.nn.model.single import SingleStack

DEEP, SHALLOW = 4, 2
"""Sublayers of the two models whose difference is what a letter takes."""


def latencies(base: SingleStack.Config, letters: str, latency: Callable[[Model.Config], float]) -> dict[str, float]:
    """Letter → seconds: a stack of that letter alone, made deeper. Embedding and head fall out, so they are small."""
    bare = base.but(embedding="token", head="tied").but(vocab=256)
    found = {}
    for letter in letters.replace(IDENTITY, ""):
        deep, shallow = (latency(bare.but(layout=f"({letter})x{n}")) for n in (DEEP, SHALLOW))
        found[letter] = max(0.0, (deep - shallow) / (DEEP - SHALLOW))
    return found
