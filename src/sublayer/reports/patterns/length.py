"""How many tokens to draw, so that a pattern can be told from one that lets everything be seen."""

from __future__ import annotations

import torch

from sublayer.nn.limits import least
from sublayer.reports.patterns.panels import Panel

FIRST, LAST = 64, 16_384
SAMPLE = 64
"""Queries asked."""
HALF, NEAR = 0.5, 1.1


def telling_length(panel: Panel, end: int | None = None) -> int:
    """The shortest power of 2, from 64, at which queries see at most half of what they could, but something; or, where
    even long texts are seen by more than half, hardly more than of these. `end`: how many tokens the model can read."""
    last = least(LAST, end) or LAST
    far = _share(panel, last)
    length = FIRST
    while length < last and far and not 0 < _share(panel, length) <= max(HALF, NEAR * far):
        length *= 2
    return min(length, last)


def _share(panel: Panel, length: int) -> float:
    """Seen of what a query could see: of the tokens up to itself, or of all if its pattern looks both ways."""
    i_S = torch.linspace(0, length - 1, min(length, SAMPLE)).long()
    seen_SL = panel.seen(i_S[:, None], torch.arange(length)).expand(len(i_S), length)
    could = int((i_S + 1).sum()) if panel.pattern.causal else len(i_S) * length
    return int(seen_SL.sum()) / could
