"""Law and Verdict: what a law is, and what it answers. A law that compared nothing does not hold: it does not apply."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass
from functools import update_wrapper
from typing import TYPE_CHECKING

import torch
from torch import Tensor

if TYPE_CHECKING:
    from sublayer.testing.case import Case

PIECES = 137
"""A length beyond every tile of the native code (24, 48, 64) and every piece of a loop over tokens (64, 128)."""
TILES = 75
"""A length beyond every tile, and beyond the pieces of a loop in training; for laws that run the slow twin."""

_compared: ContextVar[int] = ContextVar("compared", default=0)


class LawBroken(AssertionError):  # noqa: N818 (it is what it says)
    """A law that does not hold, and where."""


@dataclass(frozen=True)
class Verdict:
    """Holds, or does not apply and why. A law that is broken raises instead."""

    reason: str | None = None
    """Why it does not apply; None if it holds."""
    compared: int = 0
    """Number of comparisons made."""

    @property
    def holds(self) -> bool:
        return self.reason is None

    def __str__(self) -> str:
        return "holds" if self.reason is None else f"not applicable: {self.reason}"


class Law:
    """A statement about a model. Called with a case, it gives a verdict or raises LawBroken."""

    def __init__(self, name: str, state: Callable[[Case], str | None], long: int | None) -> None:
        self.name, self._state, self.long = name, state, long
        update_wrapper(self, state)

    def __call__(self, case: Case) -> Verdict:
        token = _compared.set(0)
        try:
            reason = self._state(case)
            compared = _compared.get()
        finally:
            _compared.reset(token)
        if reason is None and not compared:
            reason = "it compared nothing"
        return Verdict(reason, compared if reason is None else 0)


LAWS: dict[str, Law] = {}
"""Every law by its name, in the order in which they are tried."""


def law(name: str, *, long: int | None = None) -> Callable[[Callable[[Case], str | None]], Law]:
    """Enter a law. The function raises LawBroken, or returns why the law does not apply to a case; None: it holds.

    long: the law is also tried on a text of at least so many tokens, beyond the blocks of every pattern in use.
    """

    def enter(state: Callable[[Case], str | None]) -> Law:
        LAWS[name] = Law(name, state, long)
        return LAWS[name]

    return enter


def count_comparison() -> None:
    """Note that something was compared; `require` and `same` do."""
    _compared.set(_compared.get() + 1)


def require(condition: bool, message: str) -> None:
    """One comparison."""
    count_comparison()
    if not condition:
        raise LawBroken(message)


def same(here: Tensor, there: Tensor, tolerance: float, what: str) -> None:
    """Equal up to tolerance times the size of the values; two empty tensors are no comparison."""
    if here.shape != there.shape:
        raise LawBroken(f"{what}: shapes {tuple(here.shape)} and {tuple(there.shape)}")
    if not here.numel():
        return
    scale = max(1.0, float(there.detach().abs().max()))
    gap = float((here - there).detach().abs().max())
    require(gap <= tolerance * scale, f"{what}: off by {gap:.3g} where {tolerance * scale:.3g} is allowed")


def same_bits(here: Tensor, there: Tensor, what: str) -> None:
    if here.shape != there.shape:
        raise LawBroken(f"{what}: shapes {tuple(here.shape)} and {tuple(there.shape)}")
    if here.numel():
        require(torch.equal(here, there), f"{what}: bits differ")
