"""The laws: what must hold for every member of every family and for every paper, in eval mode with dropout off."""

from __future__ import annotations

from sublayer.testing.laws import (  # noqa: F401 (each file enters its laws)
    counts,
    files,
    learning,
    order,
    pads,
    segments,
    states,
    training,
    twins,
    writing,
)
from sublayer.testing.verdict import LAWS, Law

__all__ = ["LAWS", "Law"]
