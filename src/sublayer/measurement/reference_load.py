"""The reference load: fixed work, timed next to every run, which shows how fast the device is at that moment.

Other users of a shared host, heat and clock frequency change all times, on rented machines by a third within seconds.
"""

from __future__ import annotations

import torch
from torch.nn import functional as F

ROWS, WIDE, MATRICES, SMALL = 64, 512, 3, 20
"""Matrix products as in a model, on weights of 12 MB, and small operations, whose time is mostly overhead."""


class ReferenceLoad:
    def __init__(self, device: str) -> None:
        self.x = torch.ones(ROWS, WIDE, device=device)
        self.matrices = [torch.ones(4 * WIDE, WIDE, device=device) for _ in range(MATRICES)]

    def __call__(self) -> None:
        for matrix in self.matrices:
            F.linear(self.x, matrix)
        for _ in range(SMALL):
            torch.relu(self.x[0])
