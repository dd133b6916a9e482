"""How many threads share the work of a step from sublayer to sublayer."""

from __future__ import annotations

import os

import torch

WORTH = 2**16
"""Multiplications a sublayer that make one more thread worth its waiting for the others."""


def worthwhile(work: int, sublayers: int) -> int:
    """As many as torch has, processors serve and the work is worth: multiplications of all sublayers together."""
    return max(1, min(torch.get_num_threads(), _processors(), work // (sublayers * WORTH)))


def _processors() -> int:
    """Those this process may use: threads that wait for each other must not share one."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
