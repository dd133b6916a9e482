"""The Feedback Transformer: what training place by place costs, what generation gains, and what remains to be gained.

1. Training: one step, forward and backward, beside our own parallel Transformer of the same size, without dropout and
   with the paper's for small tasks; and beside feedback-transformer-pytorch at the setting where it is exact (one token
   at a time), with its gated feed-forward.
2. Memory: how far a fresh process grows in a step, beside the parallel model.
3. Generation: tokens per second from a prompt, and what is kept of each token, for several depths.
4. Reading a prompt: by the loop in C, in sweeps over all places, and by the plain loop.
5. What remains: the share of the GEMM peak, and where the time of a step goes.

The paper trains at 0.285 of a Transformer's speed (84.4 K against 296 K words per second, its Table 5).
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Annotated, Any
from unittest import mock

import harness
import high_water
import torch
from cyclopts import App, Parameter
from rich.console import Console
from rich.table import Table
from torch import Tensor, nn
from torch.nn import functional as F
from torch.profiler import profile

import sublayer
from sublayer.nn.stack import native as loop
from sublayer.nn.stack import sweeps
from sublayer.nn.state import map_tensors

VOCAB, DIM, LAYERS, HEADS, LENGTH = 256, 256, 4, 4, 128
GOAL = {"batch 16": 0.33, "batch 64": 0.40, "peer": 3.5, "memory": 1.5}
QUIET = {"s.dropout": 0.0, "f.dropout": 0.0, "embedding.dropout": 0.0, "residual.dropout": 0.0}
DROPOUT = 0.2
MEMORY_RUNS = 3
PEER = "feedback-transformer-pytorch"


def ours(layers: int = LAYERS, **changes: Any) -> Any:
    """With a memory as long as the text."""
    sizes = {"s.heads": HEADS, "s.memory.length": LENGTH, "position.clip": LENGTH, **QUIET}
    return sublayer.config("feedback", {**sizes, **changes}, vocab=VOCAB, dim=DIM, layout=f"(sf)x{layers}")


def parallel(layers: int = LAYERS, **changes: Any) -> Any:
    """The same sizes, activation and norms, every place at once."""
    same = {"s.heads": HEADS, "s.bias": False, "f.activation": "relu", **QUIET, **changes}
    return sublayer.config("gpt2", same, vocab=VOCAB, dim=DIM, layout=f"(sf)x{layers}", position="rotary")


def trainer(config: Any, batch: int, length: int = LENGTH) -> Callable[[], None]:
    torch.manual_seed(0)
    model, ids = config.build(), torch.randint(VOCAB, (batch, length + 1))

    def step() -> None:
        model.zero_grad(set_to_none=True)
        model.head.loss(model(ids[:, :-1])[0], ids[:, 1:]).backward()

    return step


def peer(batch: int) -> Callable[[], None]:
    from feedback_transformer_pytorch import FeedbackTransformer

    torch.manual_seed(0)
    sizes = {"dim": DIM, "depth": LAYERS, "heads": HEADS, "dim_head": DIM // HEADS, "mem_len": LENGTH}
    model = FeedbackTransformer(num_tokens=VOCAB, seq_len=1, **sizes)
    ids = torch.randint(VOCAB, (batch, LENGTH + 1))

    def step() -> None:
        model.zero_grad(set_to_none=True)
        F.cross_entropy(model(ids[:, :-1]).flatten(0, 1), ids[:, 1:].flatten()).backward()

    return step


def in_fresh_process(kind: str, batch: int, threads: int) -> Callable[[], None]:
    """For the high-water mark; a tiny step first starts the libraries' threads and buffers."""
    torch.set_num_threads(threads)
    config = {"feedback": ours, "parallel": parallel}[kind]
    run = trainer(config(), batch)
    trainer(config(1), 1, length=8)()
    return lambda: [run() for _ in range(2)] and None


def training(batches: list[int], seconds: float, console: Console) -> dict[str, Any]:
    peak, found = harness.gemm_peak(), {}
    table = Table("batch", "dropout", "feedback, ms", "parallel, ms", "ratio", "goal", "of the GEMM peak", box=None)
    for batch, rate in product(batches, (0.0, DROPOUT)):
        drops = {"s.dropout": rate, "f.dropout": rate}
        steps = {"ours": trainer(ours(**drops), batch), "parallel": trainer(parallel(**drops), batch)}
        done = harness.race(steps, "ours", seconds=seconds, warm_up=1)
        ratio, goal = done.speedup("ours", "parallel"), None if rate else GOAL.get(f"batch {batch}")
        share = 3 * batch * ours().cost(LENGTH, 0).flops.total / done.median("ours") / peak
        times = (f"{1e3 * done.median(name):.0f}" for name in steps)
        cells = *times, f"{ratio}", "" if goal is None else f"{goal}", f"{100 * share:.0f} %"
        table.add_row(str(batch), f"{rate}", *cells)
        found[f"{batch}, dropout {rate}"] = {"ratio": ratio.dump(), "share of peak": share, "race": done.dump()}
    console.print(table)
    return found


def beside_peer(batch: int, seconds: float, console: Console) -> dict[str, Any]:
    config = ours(f={"kind": "glu", "activation": "gelu", "inner": 4 * DIM, "bias": True})
    done = harness.race({"ours": trainer(config, batch), PEER: peer(batch)}, "ours", seconds=seconds, warm_up=1)
    ratio = done.speedup("ours", PEER)
    console.print(
        f"batch {batch}, one token at a time, gated feed-forward: {1e3 * done.median('ours'):.0f} ms, {PEER} "
        f"{1e3 * done.median(PEER):.0f} ms: {ratio} times as fast (goal {GOAL['peer']})"
    )
    return {"ratio": ratio.dump(), "race": done.dump()}


def memory(batch: int, console: Console) -> dict[str, Any]:
    taken: dict[str, list[int]] = {"feedback": [], "parallel": []}
    for _ in range(MEMORY_RUNS):
        for kind, found in taken.items():
            arguments = {"kind": kind, "batch": batch, "threads": torch.get_num_threads()}
            found.append(high_water.rise(__file__, "in_fresh_process", **arguments))
    least = {kind: min(found) for kind, found in taken.items()}
    ratio = least["feedback"] / least["parallel"]
    console.print(
        f"memory of a step, batch {batch}: {least['feedback'] / 1e6:.0f} MB, parallel "
        f"{least['parallel'] / 1e6:.0f} MB: {ratio:.2f} (goal at most {GOAL['memory']})"
    )
    return {"ratio": ratio, "bytes": taken}


def writer(model: nn.Module, batch: int, tokens: int) -> Callable[[], None]:
    from sublayer.generation import generate

    prompts = [[n % VOCAB for n in range(8)]] * batch
    return lambda: generate(model, prompts, tokens=tokens) and None


def generation(seconds: float, console: Console) -> dict[str, Any]:
    found: dict[str, Any] = {}
    table = Table("batch", "feedback, tokens/s", "parallel, tokens/s", "ratio", box=None)
    models = {"ours": ours().build().eval(), "parallel": parallel().build().eval()}
    for batch in (1, 64):
        writers = {name: writer(model, batch, LENGTH // 2) for name, model in models.items()}
        done = harness.race(writers, "ours", seconds=seconds, warm_up=1)
        speeds = (f"{batch * LENGTH / 2 / done.median(name):,.0f}" for name in writers)
        table.add_row(str(batch), *speeds, f"{done.speedup('ours', 'parallel')}")
        found[str(batch)] = {"ratio": done.speedup("ours", "parallel").dump(), "race": done.dump()}
    console.print(table)
    kept = {layers: [state_of(make(layers)) for make in (ours, parallel)] for layers in (2, 4, 8)}
    table = Table("layers", "feedback, numbers kept of a token", "parallel", box=None)
    for layers, (feedback, plain) in kept.items():
        table.add_row(str(layers), f"{feedback:,}", f"{plain:,}")
    console.print(table)
    return {**found, "kept of a token": {str(layers): sizes for layers, sizes in kept.items()}}


def reading(seconds: float, console: Console) -> dict[str, Any]:
    """A model as it starts, which needs more sweeps than one that has learned."""
    found, model = {}, ours().build().eval()
    table = Table("prompt", "loop in C, ms", "sweeps, ms", "plain loop, ms", "sweeps to plain", "C to sweeps", box=None)
    for length in (128, 512):
        ids = torch.randint(VOCAB, (1, length))
        ways = {
            "ours": lambda ids=ids: read(model, ids),
            "sweeps": lambda ids=ids: read(model, ids, native=False),
            "plain": lambda ids=ids: read(model, ids, native=False, rows=0),
        }
        done = harness.race(ways, "ours", seconds=seconds, warm_up=1)
        ratios = done.speedup("sweeps", "plain"), done.speedup("ours", "sweeps")
        times = (f"{1e3 * done.median(name):.0f}" for name in ways)
        table.add_row(f"{length}", *times, *(f"{ratio}" for ratio in ratios))
        found[str(length)] = {"ratios": [ratio.dump() for ratio in ratios], "race": done.dump()}
    console.print(table)
    return found


@torch.no_grad()
def read(model: nn.Module, ids: Tensor, *, native: bool = True, rows: int = sweeps.ROWS) -> None:
    with mock.patch.object(sweeps, "ROWS", rows), mock.patch.object(loop, "runs", loop.runs if native else _never):
        model(ids)


def _never(x: Tensor) -> bool:
    return False


@torch.no_grad()
def state_of(config: Any) -> int:
    """Numbers that a state holds for each token of its text."""
    model, length, sizes = config.build().eval(), 16, []
    _, state = model(torch.zeros(1, length, dtype=torch.long))
    map_tensors(model.frozen(state).parts, lambda tensor: sizes.append(tensor.numel()) or tensor)
    return sum(sizes) // length


def profiled(batch: int, console: Console) -> list[dict[str, Any]]:
    step = trainer(ours(), batch)
    step()
    with profile() as told:
        step()
    events = sorted(told.key_averages(), key=lambda event: -event.self_cpu_time_total)[:12]
    total = sum(event.self_cpu_time_total for event in told.key_averages())
    table = Table("what", "share", "calls", box=None)
    for event in events:
        table.add_row(event.key, f"{100 * event.self_cpu_time_total / total:.1f} %", f"{event.count:,}")
    console.print(table)
    return [{"what": e.key, "share": e.self_cpu_time_total / total, "calls": e.count} for e in events]


def main(
    *,
    seconds: float = 40.0,
    threads: int | None = None,
    json_out: Annotated[Path | None, Parameter(name="--json")] = None,
) -> None:
    """Time and weigh it all in one run.

    Parameters
    ----------
    seconds
        The longest time for each comparison.
    threads
        Processor threads.
    json_out
        Where to write the result; results/feedback.json if not given.
    """
    torch.set_num_threads(threads or torch.get_num_threads())
    console = Console(highlight=False)
    result: dict[str, Any] = {"machine": harness.fingerprint(PEER)}
    result["training"] = training([16, 64], seconds, console)
    result["peer"] = beside_peer(16, seconds, console)
    result["memory"] = memory(16, console)
    result["generation"] = generation(seconds, console)
    result["reading"] = reading(seconds, console)
    result["profile"] = profiled(16, console)
    console.print(f"written to {harness.write('feedback', result, json_out)}", style="dim")


if __name__ == "__main__":
    App(default_command=main, help=__doc__, help_format="plaintext")()
