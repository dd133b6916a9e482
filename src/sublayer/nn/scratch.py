"""Scratch memory for one call. Each thread reuses its buffer from call to call: new pages cost time."""

from __future__ import annotations

import threading

import torch
from jaxtyping import Shaped
from torch import Tensor

_local = threading.local()


def scratch(count: int, dtype: torch.dtype = torch.float32) -> Shaped[Tensor, " count"]:
    """`count` numbers on the CPU, uninitialised; valid until the same thread asks again."""
    buffer = getattr(_local, "buffer", None)
    if buffer is None or buffer.dtype != dtype or len(buffer) < count:
        buffer = _local.buffer = torch.empty(count, dtype=dtype, device="cpu")
    return buffer[:count]
