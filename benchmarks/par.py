"""PAR(5) beside the interleaved Transformer-XL it was made from: as many sublayers, in the setting of its paper.

64 new tokens after 640 remembered ones, one row, in eval mode. The paper remembers hidden states and projects them to
keys and values again for every segment; `frozen` keeps them as keys and values instead, where attention costs less.
Weights are untrained: speed and memory do not depend on them.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import harness
import torch
from cyclopts import App, Parameter
from rich.console import Console
from rich.table import Table

from sublayer.measurement import Setting, passes
from sublayer.nn.model import Model
from sublayer.papers.registry import config

PAIR = ("par-base", "transformer-xl-base")
GOAL = 1.3
"""How much faster PAR has to be where hidden states are remembered."""


def contest(ours: Model.Config, theirs: Model.Config, setting: Setting, seconds: float) -> harness.Race:
    made = {
        name: passes.make(passes.build(model, "cpu"), setting)
        for name, model in (("par", ours), ("interleaved", theirs))
    }
    with torch.inference_mode():
        return harness.race({name: one.run for name, one in made.items()}, "par", seconds=seconds)


def main(
    *,
    length: int = 64,
    memory: int = 640,
    seconds: float = 60.0,
    threads: int | None = None,
    out: Annotated[
        Path | None, Parameter(help="Where to write JSON; benchmarks/results/par.json if not given.")
    ] = None,
) -> None:
    """Time both models in both modes, interleaved.

    Parameters
    ----------
    length
        New tokens.
    memory
        Remembered tokens.
    seconds
        The longest time for each mode.
    threads
        Processor threads.
    json_out
        Where to write the result; results/par.json if not given.
    """
    torch.set_num_threads(threads or torch.get_num_threads())
    console = Console(highlight=False)
    table = Table("remembered as", "interleaved, ms", "PAR(5), ms", "ratio", "GFLOPs", "verdict", box=None)
    result: dict[str, Any] = {"machine": harness.fingerprint(), "length": length, "memory": memory}
    for frozen in (False, True):
        ours, theirs = (config(name) for name in PAIR)
        done = contest(ours, theirs, Setting(length=length, memory=memory, frozen=frozen), seconds)
        ratio = done.speedup("par", "interleaved")
        work = [_work(model, length, memory, frozen) / 1e9 for model in (theirs, ours)]
        mode = "keys and values" if frozen else "hidden states"
        verdict = "" if frozen else f"{ratio.verdict(GOAL)} than {GOAL}×"
        times = (f"{1e3 * done.median(name):.1f}" for name in ("interleaved", "par"))
        table.add_row(mode, *times, str(ratio), f"{work[0]:.1f} / {work[1]:.1f}", verdict)
        result[mode] = {"ratio": ratio.dump(), "gflops": work, "race": done.dump()}
    console.print(table)
    console.print(f"written to {harness.write('par', result, json_out)}", style="dim")


def _work(model: Model.Config, length: int, memory: int, frozen: bool) -> int:
    flops = model.cost(length, memory).flops
    return flops.total - flops.stack + flops.frozen_stack if frozen else flops.total


if __name__ == "__main__":
    App(default_command=main, help=__doc__, help_format="plaintext")()
