"""Dropout drawn for all places at once: 16 random bits for each number, where PyTorch's own takes 64."""

from __future__ import annotations

import torch
from torch import Tensor

LEVELS = 1 << 16


def scale(rate: float) -> float:
    """What makes up for those that are left out; it may be multiplied into whatever matrix comes next."""
    return LEVELS / _staying(rate) if rate else 1.0


def stay(shape: tuple[int, ...], rate: float, like: Tensor) -> Tensor:
    """True for numbers that are not left out."""
    count = torch.Size(shape).numel()
    words = torch.empty(-(-count // 4), dtype=torch.int64, device=like.device).random_(
        torch.iinfo(torch.int64).min, None
    )
    return (words.view(torch.int16)[:count] < _staying(rate) - LEVELS // 2).view(shape)


def _staying(rate: float) -> int:
    """At how many of the levels a number stays: not at all of them, nor at none."""
    return min(max(round(LEVELS * (1 - rate)), 1), LEVELS - 1)
