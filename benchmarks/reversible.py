"""The reversible stack: memory and time of a training step beside the plain stack, at two depths.

GPT-2's parts without dropout over bytes, fp32, one row of 2,048 tokens. Four contestants with the same weights:

- plain: every activation is stored;
- checkpoints: the plain stack with `train.recompute`, which stores the input of each sublayer;
- reversible: stores the two streams at the end of the stack;
- chunks: the same, with feed-forwards run in eight pieces of the text.

Memory is the rise of a fresh process's high-water mark over what it holds after it is built and has made a tiny step,
for one forward and one backward pass. The gradients of the weights begin as none and end as large as the weights,
whatever the stack: their bytes, 4 for each parameter, are subtracted, and what remains is activations and what the
pass needs at work. Weights are there before; no optimiser is made. Medians of several processes.

Goal: reversible at 24 layers takes at most 1.25 times what it takes at 4.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any, Literal

import harness
import high_water
import torch
from cyclopts import App
from rich.console import Console
from rich.table import Table
from torch import nn

import sublayer
from sublayer.training.recompute import recompute

VOCAB, DIM, HEADS, LENGTH = 256, 256, 4, 2048
DEPTHS = (4, 24)
CHUNKS = 8
MEMORY_RUNS = 5
GOAL = 1.25
QUIET = {"s.dropout": 0.0, "embedding.dropout": 0.0, "residual.dropout": 0.0}
CONTESTANTS: dict[str, dict[str, Any]] = {
    "plain": {},
    "checkpoints": {},
    "reversible": {"stack": "reversible"},
    "chunks": {"stack": "reversible", "stack.chunks": CHUNKS},
}
MIB = 2**20


def config(name: str, layers: int, length: int = LENGTH) -> Any:
    sizes = {"s.heads": HEADS, "f.activation": "gelu", "position.limit": length, **QUIET}
    gpt2 = sublayer.config("gpt2", sizes, vocab=VOCAB, dim=DIM, layout=f"(sf)x{layers}")
    return gpt2.but(CONTESTANTS[name])


def build(name: str, layers: int, length: int = LENGTH) -> tuple[nn.Module, Callable[..., None]]:
    """A model in training mode, and its step on so many tokens."""
    torch.manual_seed(0)
    model = config(name, layers, length).build().train()
    if name == "checkpoints":
        recompute(model)
    ids = torch.randint(VOCAB, (1, length + 1), generator=torch.Generator().manual_seed(0))

    def step(tokens: int = length) -> None:
        model.zero_grad(set_to_none=True)
        h_BLD, _ = model(ids[:, :tokens])
        model.head.loss(h_BLD, ids[:, 1 : tokens + 1]).backward()

    return model, step


def in_fresh_process(name: str, layers: int, length: int, threads: int) -> Callable[[], None]:
    """For the high-water mark. A tiny step first starts the libraries' threads and buffers."""
    torch.set_num_threads(threads)
    model, step = build(name, layers, length)
    step(8)
    model.zero_grad(set_to_none=True)
    return lambda: step(length)


def gradient_bytes(name: str, layers: int, length: int) -> int:
    """Of the weights' gradients, which a step makes."""
    return 4 * config(name, layers, length).cost().params


def measure_memory(length: int, runs: int, threads: int, console: Console) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {name: {} for name in CONTESTANTS}
    with harness.progress(console) as bar:
        task = bar.add_task("memory", total=runs * len(DEPTHS) * len(found), said="")
        for name, depths in found.items():
            for layers in DEPTHS:
                own = gradient_bytes(name, layers, length)
                rises = []
                for _ in range(runs):
                    given = {"name": name, "layers": layers, "length": length, "threads": threads}
                    rises.append(high_water.rise(__file__, "in_fresh_process", **given) - own)
                    bar.advance(task)
                depths[str(layers)] = {"median": median(rises), "bytes": rises, "gradients": own}
    return found


def measure_time(layers: int, length: int, repeats: int, seconds: float, clock: str, console: Console) -> harness.Race:
    steps = {name: build(name, layers, length)[1] for name in CONTESTANTS}
    with harness.progress(console) as bar:
        task = bar.add_task(f"{layers} layers", total=None, said="warming up")
        how: dict[str, Any] = {"repeats": repeats, "seconds": seconds, "clock": harness.CLOCKS[clock], "warm_up": 1}
        return harness.race(
            steps, "reversible", on_round=lambda race: bar.update(task, said=f"round {race.rounds}"), **how
        )


def memory_table(memory: dict[str, dict[str, Any]]) -> Table:
    table = Table("stack", *(f"{layers} layers, MiB" for layers in DEPTHS), "deep / shallow")
    table.title = "high-water increase of a step in a fresh process, without the gradients of the weights"
    for name, depths in memory.items():
        shallow, deep = (depths[str(layers)]["median"] for layers in DEPTHS)
        table.add_row(name, f"{shallow / MIB:.0f}", f"{deep / MIB:.0f}", f"{deep / shallow:.2f}")
    return table


def time_table(races: dict[int, harness.Race]) -> Table:
    table = Table("layers", "stack", "s a step", "quartiles", "× the time of plain")
    table.title = "forward + backward"
    for layers, race in races.items():
        for name in race.seconds:
            low, high = race.quartiles(name)
            ratio = race.speedup("plain", name)
            last = name == list(race.seconds)[-1]
            table.add_row(
                str(layers), name, f"{race.median(name):.2f}", f"{low:.2f}–{high:.2f}", str(ratio), end_section=last
            )
    return table


app = App(name="reversible", help="Memory and time of a training step, plain and reversible.", version_flags=[])


@app.default
def main(
    *,
    length: int = LENGTH,
    repeats: int = 5,
    seconds: float = 60.0,
    runs: int = MEMORY_RUNS,
    json_out: Path | None = None,
    threads: int | None = None,
    clock: Literal["wall", "cpu"] = "wall",
    memory: bool = True,
    time: bool = True,
) -> None:
    """Memory and time of a training step, plain and reversible.

    Parameters
    ----------
    length
        Tokens of the row.
    repeats
        Rounds at least.
    seconds
        Time for the rounds of one depth beyond those.
    runs
        Processes that each peak of memory is the median of.
    json_out
        Where the result goes; benchmarks/results/reversible.json if not given.
    threads
        All cores if not given.
    clock
        wall, or cpu (processor time, for a busy machine; use one thread).
    memory
        Whether peak memory is measured.
    time
        Whether steps are timed.
    """
    console = Console(width=None if Console().is_terminal else 140)
    torch.set_num_threads(threads or torch.get_num_threads())
    report: dict[str, Any] = {"machine": harness.fingerprint(), "length": length, "clock": clock, "goal": GOAL}
    if memory:
        found = report["memory"] = measure_memory(length, runs, torch.get_num_threads(), console)
        console.print(memory_table(found))
        shallow, deep = (found["reversible"][str(layers)]["median"] for layers in DEPTHS)
        report["deep_over_shallow"] = deep / shallow
        met = "met" if deep / shallow <= GOAL else "not met"
        console.print(f"reversible, {DEPTHS[1]} layers / {DEPTHS[0]}: {deep / shallow:.2f}; goal ≤ {GOAL}, {met}")
    if time:
        races = {layers: measure_time(layers, length, repeats, seconds, clock, console) for layers in DEPTHS}
        console.print(time_table(races))
        report["seconds"] = {str(layers): race.dump() for layers, race in races.items()}
    console.print(f"written to {harness.write('reversible', report, json_out)}")


if __name__ == "__main__":
    app()
