"""Yardstick: a fixed piece of work, timed beside every run, that tells how fast the device happens to be.

Neighbours on a shared host, heat and frequency move all times, by a third within seconds where machines are rented.
"""

from __future__ import annotations

import torch
from torch.nn import functional as F

ROWS, WIDE, MATRICES, SMALL = 64, 512, 3, 20
"""Matrix products as in a model, on weights of 12 MB, and small operations, whose time is not in the numbers."""


class Yardstick:
    def __init__(self, device: str) -> None:
        self.x = torch.ones(ROWS, WIDE, device=device)
        self.matrices = [torch.ones(4 * WIDE, WIDE, device=device) for _ in range(MATRICES)]

    def __call__(self) -> None:
        for matrix in self.matrices:
            F.linear(self.x, matrix)
        for _ in range(SMALL):
            torch.relu(self.x[0])
