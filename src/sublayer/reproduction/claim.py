"""Claim: a statement of a paper, and the comparison that tests it at a small size."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from sublayer.comparison import Variant
from sublayer.measurement import Setting
from sublayer.nn.config import unknown


@dataclass(frozen=True)
class Finding:
    """One figure of all variants, and which variant the paper finds better."""

    figure: str
    """Its field in a row of the comparison's table: test.accuracy, bits_per_byte, tokens_per_second, …"""
    title: str
    unit: str
    order: Sequence[tuple[str, str]]
    """Pairs of variants, the better one first, as the paper finds them."""
    paper: Mapping[str, float] = field(default_factory=dict)
    """By variant, in the same unit, where the paper prints numbers; figures that it only draws are left out."""
    alike: Sequence[tuple[str, str]] = ()
    """Pairs that the paper finds equally good."""
    less_is_better: bool = False
    form: Callable[[float], float] = float
    """From the table's number to one in the unit."""


@dataclass(frozen=True)
class Claim:
    name: str
    source: str
    """Where the paper makes it."""
    says: str
    scale: str
    """How the experiment was made smaller than the paper's."""
    variants: Sequence[Variant]
    findings: Sequence[Finding]
    changes: Mapping[str, Any]
    """For all variants: sizes, budget."""
    data: str = "stdlib"
    lrs: Sequence[float] = ()
    setting: Setting | None = None
    """How latency is measured; None: latency is not measured."""
    papers: Sequence[str] = ()
    """Papers that it is about, where its name does not say so."""


CLAIMS: dict[str, Callable[[], Claim]] = {}


def claim(name: str) -> Callable[[Callable[[], Claim]], Callable[[], Claim]]:
    """Register a function that makes a claim."""

    def enter(make: Callable[[], Claim]) -> Callable[[], Claim]:
        CLAIMS[name] = make
        return make

    return enter


@cache
def discover() -> None:
    """Import every file of this room, so that the claims of a paper are one new file."""
    import sublayer.reproduction

    for module in pkgutil.iter_modules(sublayer.reproduction.__path__):
        importlib.import_module(f"sublayer.reproduction.{module.name}")


def claims() -> list[Claim]:
    discover()
    return [make() for make in CLAIMS.values()]


def find(name: str) -> Claim:
    discover()
    if name not in CLAIMS:
        raise ValueError(f"{unknown('claim', name, CLAIMS)}; sublayer reproduce lists them")
    return CLAIMS[name]()
