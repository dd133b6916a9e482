"""Number of threads that share the work of a step from sublayer to sublayer."""

from __future__ import annotations

import os

import torch

WORTH = 2**16
"""Multiplications per sublayer from which one more thread gains more than the barrier costs."""


def worthwhile(work: int, sublayers: int) -> int:
    """The least of torch's threads, processors and what `work`, multiplications of all sublayers, is worth."""
    return max(1, min(torch.get_num_threads(), _processors(), work // (sublayers * WORTH)))


def _processors() -> int:
    """Processors this process may use: threads that wait for each other at barriers must not share one."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
