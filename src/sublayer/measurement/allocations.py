"""Memory that a call allocates, as PyTorch's allocators count it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch


@dataclass(frozen=True)
class Allocated:
    """Bytes beyond those allocated before the call."""

    peak: int
    kept: int
    """Bytes still allocated when the call has returned, its result included."""


def allocated(run: Callable[[], object], device: str = "cpu") -> Allocated:
    if torch.device(device).type != "cpu":
        return _on_accelerator(run, device)
    # The allocator reports every block to the profiler, also those inside one operation; nothing else changes.
    with torch.autograd.profiler.profile(profile_memory=True) as profile:
        result = run()
    there = peak = 0
    events: list[Any] = profile.kineto_results.events()  # pyright: ignore[reportOptionalMemberAccess]
    for event in events:
        if event.name() == "[memory]":
            there += event.nbytes()
            peak = max(peak, there)
    del result
    return Allocated(peak, there)


def _on_accelerator(run: Callable[[], object], device: str) -> Allocated:
    torch.accelerator.synchronize(device)
    torch.accelerator.reset_peak_memory_stats(device)
    before = torch.accelerator.memory_allocated(device)
    result = run()
    torch.accelerator.synchronize(device)
    found = Allocated(
        torch.accelerator.max_memory_allocated(device) - before, torch.accelerator.memory_allocated(device) - before
    )
    del result
    return found
