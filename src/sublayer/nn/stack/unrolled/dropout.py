"""Dropout masks for all tokens at once, from 16 random bits a number.

The random generator is the cost of a mask: one 64-bit draw gives four numbers here, one in PyTorch's own dropout. The
rate is thereby rounded to a multiple of 2⁻¹⁶, and `scale` uses the rounded one, so the mean is exact."""

from __future__ import annotations

import torch
from torch import Tensor

LEVELS = 1 << 16


def scale(rate: float) -> float:
    """1/(1 − rate), the factor for numbers that are not dropped; it may be folded into the next matrix."""
    return LEVELS / _staying(rate) if rate else 1.0


def draw_mask(shape: tuple[int, ...], rate: float, like: Tensor) -> Tensor:
    """True for numbers that are not dropped."""
    count = torch.Size(shape).numel()
    words = torch.empty(-(-count // 4), dtype=torch.int64, device=like.device).random_(
        torch.iinfo(torch.int64).min, None
    )
    # int16 counts from −2¹⁵, so the threshold is moved by as much.
    return (words.view(torch.int16)[:count] < _staying(rate) - LEVELS // 2).view(shape)


def _staying(rate: float) -> int:
    """How many of the 2¹⁶ levels do not drop: at least one, and not all."""
    return min(max(round(LEVELS * (1 - rate)), 1), LEVELS - 1)
