"""Room for what is needed only for the moment. Each thread keeps it from call to call: new pages cost time."""

from __future__ import annotations

import threading

import torch
from jaxtyping import Shaped
from torch import Tensor

_kept = threading.local()


def scratch(count: int, dtype: torch.dtype = torch.float32) -> Shaped[Tensor, " count"]:
    """So many numbers on the CPU, which are the caller's until it returns."""
    kept = getattr(_kept, "room", None)
    if kept is None or kept.dtype != dtype or len(kept) < count:
        kept = _kept.room = torch.empty(count, dtype=dtype, device="cpu")
    return kept[:count]
