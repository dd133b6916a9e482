"""Passes of one attention, forward and backward, for benchmarks over several lengths: time, memory, and how they grow.

All contestants get the same queries, keys, values and gradient, (1, L, 512) as a projection leaves them.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import harness
import high_water
import torch
from rich.console import Console
from rich.table import Table
from torch import Tensor
from torch.nn import functional as F

HEADS, HEAD = 8, 64
LENGTHS = (1024, 4096, 16384)
GROWN = (4096, 16384)
"""The lengths between which growth is judged."""
MOST_EXPONENT = 1.1
MEMORY_RUNS = 3
DENSE = "dense SDPA"
Attend = Callable[[Tensor, Tensor, Tensor], Tensor]
"""(1, H, L, K) each."""
Build = Callable[[str, int], Callable[[], object]]
"""From a contestant's name and a length to its pass."""


def sdpa(length: int) -> Attend:
    return lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True)


def pass_of(attend: Attend, length: int) -> Callable[[], None]:
    """Forward and backward of one contestant on what all are given."""
    generator = torch.Generator().manual_seed(0)
    given = [torch.randn(1, length, HEADS * HEAD, generator=generator) for _ in range(4)]
    qkv, grad_BHLK = [x.requires_grad_() for x in given[:3]], heads(given[3])

    def run() -> None:
        y_BHLK = attend(*(heads(x) for x in qkv))
        torch.autograd.grad(y_BHLK, qkv, grad_BHLK, allow_unused=True)  # in LSH, queries are the keys

    return run


def heads(x_BLD: Tensor) -> Tensor:
    return x_BLD.unflatten(-1, (HEADS, HEAD)).transpose(1, 2)


def measure(
    build: Build, length: int, names: Sequence[str], repeats: int, seconds: float, console: Console
) -> harness.Race:
    with harness.progress(console) as bar:
        task = bar.add_task(f"{length:,} tokens", total=None, said="warming up")
        steps = {name: build(name, length) for name in names}
        shown = lambda race: bar.update(task, said=f"round {race.rounds}")  # noqa: E731
        warm_up = 1 if length > 4096 else 2
        return harness.race(
            steps, names[0], repeats=repeats, seconds=seconds, warm_up=warm_up, clock=time.process_time, on_round=shown
        )


def measure_memory(file: str, length: int, names: Sequence[str], console: Console) -> dict[str, list[int]]:
    """Of fresh processes, each of which runs `in_fresh_process` of the benchmark's file."""
    found: dict[str, list[int]] = {name: [] for name in names}
    with harness.progress(console) as bar:
        task = bar.add_task(f"{length:,} tokens, memory", total=MEMORY_RUNS * len(names), said="")
        for _ in range(MEMORY_RUNS):
            for name, taken in found.items():
                taken.append(high_water.rise(file, "in_fresh_process", name=name, length=length))
                bar.advance(task)
    return found


def middle(values: Sequence[int]) -> int:
    return sorted(values)[len(values) // 2]


def growth(small: float, large: float) -> float:
    """The exponent of a power of the length, from figures at the two lengths `GROWN`."""
    return math.log(large / small) / math.log(GROWN[1] / GROWN[0])


def exponents(name: str, races: dict[int, harness.Race], memory: dict[int, dict[str, list[int]]]) -> dict[str, float]:
    """Of a contestant's time and memory, where they were measured at both lengths."""
    found = {}
    if all(length in races and name in races[length].seconds for length in GROWN):
        found["time"] = growth(*(races[length].median(name) for length in GROWN))
    if all(name in memory.get(length, {}) for length in GROWN):
        found["memory"] = growth(*(middle(memory[length][name]) for length in GROWN))
    return found


def judge_speed(table: Table, goals: Iterable[tuple[str, str, int, float]], races: dict[int, harness.Race]) -> None:
    """A row for each goal (ours, peer, length, how many times as fast at least) whose contestants ran."""
    for ours, peer, length, least in goals:
        if length in races and {ours, peer} <= races[length].seconds.keys():
            ratio = races[length].speedup(ours, peer)
            verdict = {"faster": "met", "slower": "missed"}.get(ratio.verdict(least), "no verdict")
            table.add_row(f"{ours} / {peer}, {length:,}", f"{ratio}×", f"≥ {least:.2f}×", verdict)


def judge_growth(
    table: Table,
    names: Iterable[str],
    races: dict[int, harness.Race],
    memory: dict[int, dict[str, list[int]]],
    most: float = MOST_EXPONENT,
) -> None:
    for name in names:
        for what, exponent in exponents(name, races, memory).items():
            met = "met" if exponent <= most else "missed"
            table.add_row(f"{name}: {what} grows by L^", f"{exponent:.2f}", f"≤ {most}", met)


def dumped(races: dict[int, harness.Race], memory: dict[int, dict[str, list[int]]]) -> dict[str, Any]:
    return {
        str(length): {"contestants": race.dump(), "peak_memory_bytes": memory.get(length)}
        for length, race in races.items()
    }
