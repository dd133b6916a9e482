"""Large arrays for C to write, in memory that earlier ones gave back.

glibc takes an array of 32 MB or more from the system when it is made, and gives it back when it is freed; the system clears
each page of the next one as it is first touched, which can take as long as all that C writes there. Memory of an array made
here goes on to the next of its size once no tensor is left that shares it. Up to a gigabyte waits to be used again; `release`
frees it. With SUBLAYER_REUSE=0, and while PyTorch's profiler counts memory, arrays are PyTorch's own.
"""

from __future__ import annotations

import math
import os
import weakref
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

VARIABLE = "SUBLAYER_REUSE"
LARGE = 2**25
"""Bytes from which an array is taken from the system by itself."""
MOST = 2**30
"""Bytes that may wait."""
LINE = 64
"""Bytes of a line of the processor's caches, at which arrays begin."""

_waiting: dict[int, list[np.ndarray]] = {}
"""Memory by its size. Arrays may be freed at any moment, so lists are changed by single operations only."""


def empty(*shape: int, like: Tensor) -> Tensor:
    """As `like.new_empty(shape)`."""
    size = math.prod(shape) * like.element_size()
    if size < LARGE or like.device.type != "cpu" or not _wanted():
        return like.new_empty(shape)
    try:
        memory = _waiting[size].pop()
    except (KeyError, IndexError):
        memory = np.empty(size + LINE, np.uint8)
    start = -memory.ctypes.data % LINE
    shared = memory[start : start + size]  # what the tensor holds, and so is gone when its storage is
    weakref.finalize(shared, _give_back, size, memory).atexit = False
    return torch.from_numpy(shared).view(like.dtype).view(shape)


def empty_like(x: Tensor) -> Tensor:
    """As `torch.empty_like`, in the order in which x lies in memory."""
    stride = torch.empty_like(x, device="meta").stride()
    return empty(x.numel(), like=x).as_strided(x.shape, stride)


def release() -> None:
    """Free what waits."""
    _waiting.clear()


def _wanted() -> bool:
    return os.environ.get(VARIABLE) != "0" and not torch.autograd._profiler_enabled()


def _give_back(size: int, memory: np.ndarray) -> None:
    """Room is made at the cost of other sizes."""
    for other in [*_waiting]:
        while _bytes() + size > MOST and other != size and _drop(other):
            pass
    if _bytes() + size <= MOST:
        _waiting.setdefault(size, []).append(memory)


def _drop(size: int) -> bool:
    try:
        _waiting[size].pop()
    except (KeyError, IndexError):
        return False
    return True


def _bytes() -> int:
    return sum(size * len(memories) for size, memories in [*_waiting.items()])
