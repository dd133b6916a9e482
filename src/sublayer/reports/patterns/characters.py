"""Cells as characters, two rows of cells a line: block elements, which every terminal font has."""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

WHOLE = {(0.0, 0.0): " ", (1.0, 0.0): "▀", (0.0, 1.0): "▄", (1.0, 1.0): "█"}
SHADES = "░▒▓"
"""Of two cells that are seen in part: up to a third, two thirds, more."""


def lines(share_RR: Float[Tensor, "R R"]) -> list[str]:
    """The upper and the lower cell of each character are drawn apart where each is seen whole or not at all; otherwise
    it is shaded by the share of both together."""
    upper_LR, lower_LR = F.pad(share_RR, (0, 0, 0, len(share_RR) % 2))[0::2], share_RR[1::2]
    lower_LR = F.pad(lower_LR, (0, 0, 0, len(upper_LR) - len(lower_LR)))
    pairs = zip(upper_LR.tolist(), lower_LR.tolist(), strict=True)
    return ["".join(map(_character, *pair)) for pair in pairs]


def framed(rows: list[str]) -> list[str]:
    """In a box, so that keys that nobody sees have an edge, too."""
    width = len(rows[0])
    return [f"┌{'─' * width}┐", *(f"│{row}│" for row in rows), f"└{'─' * width}┘"]


def _character(upper: float, lower: float) -> str:
    if (upper, lower) in WHOLE:
        return WHOLE[upper, lower]
    return SHADES[min(int((upper + lower) / 2 * len(SHADES)), len(SHADES) - 1)]
