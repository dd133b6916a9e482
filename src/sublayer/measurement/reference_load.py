"""The reference load: fixed work, timed next to every run, which shows how fast the device is at that moment.

Other users of a shared host, heat and clock frequency change all times, on rented machines by a third within seconds.
They do not change all kinds of work alike, so each kind is a component that is timed by itself.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from itertools import cycle

import torch
from torch.nn import functional as F

from sublayer.measurement.pace import Pace, Shares

ROWS, WIDE, TIMES = 64, 256, 8
"""Products of so many rows with one square matrix, which stays in the caches."""
LONG, TALL, MATRICES = 512, 4096, 16
"""A row times one of several matrices in turn, 8 MB each: by its next turn no cache holds it."""
CALLS, SHARED = 50, 25
"""Small operations: in one thread, and shared by all threads."""
DIVIDED = 2**16
"""Numbers of a shared operation; PyTorch divides what has more than 2¹⁵ of them."""

FLOPS = 2 * ROWS * WIDE * WIDE * TIMES
"""Of `products`."""
BYTES = 4 * LONG * TALL
"""Read by `stream`."""


@lru_cache(maxsize=1)
def reference_load(device: str) -> dict[str, Callable[[], object]]:
    """The components by name; made once in a process."""
    rows, square = torch.ones(ROWS, WIDE, device=device), torch.ones(WIDE, WIDE, device=device)
    row = torch.ones(1, LONG, device=device)
    divided = torch.ones(DIVIDED, device=device)
    matrices = cycle([torch.ones(TALL, LONG, device=device) for _ in range(MATRICES)])

    def products() -> None:
        for _ in range(TIMES):
            F.linear(rows, square)

    def stream() -> None:
        F.linear(row, next(matrices))

    def overhead() -> None:
        for _ in range(CALLS):
            torch.relu(row)
        for _ in range(SHARED):
            torch.relu(divided)

    return {"products": products, "stream": stream, "overhead": overhead}


def shares(seconds: float, pace: Pace, flops: float, weights: float) -> Shares:
    """How a pass with so much arithmetic, over so many bytes of weights, spends its time at this pace."""
    return Shares.of(seconds, flops / FLOPS * pace.products, weights / BYTES * pace.stream)
