"""Attention in linear time beside dense, and beside other libraries': time and memory, forward and backward.

    python benchmarks/linear.py                                    # everything; half an hour on two slow cores
    python benchmarks/linear.py --lengths 1024 4096 --only 'linear,retention' --no-memory

Eight heads of 64, one row, fp32, one thread. All are given the same queries, keys and values, (1, L, 512) as a
projection leaves them, and the same gradient; no one's projections are timed. Time is the processor's.

- Dense, causal: PyTorch's SDPA, and ours in C. Ours, causal: linear (elu + 1), retention, delta (with gate), Performer
  with 256 features, RFA with 64 random vectors, without and with gate. "no compiler": the same by chunks in PyTorch.
- flash-linear-attention's forms in PyTorch, by chunks of 64: naive_chunk_linear_attn on elu + 1 with weights that sum
  to one, naive_chunk_simple_gla with retention's fading, naive_chunk_gated_delta_rule. They are meant as plain code to
  test kernels for GPUs with, which do not run here.
- performer-pytorch, causal, 256 features, without its CUDA extension.
- Routing attention, looking back and both ways, beside routing-transformer's: routed.py describes them.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from importlib.metadata import distribution
from pathlib import Path
from typing import Annotated, Any

import harness
import routed
import torch
from cyclopts import App, Parameter
from passes import (
    DENSE,
    HEAD,
    HEADS,
    LENGTHS,
    Attend,
    dumped,
    judge_growth,
    judge_speed,
    measure,
    measure_memory,
    middle,
    pass_of,
    sdpa,
)
from rich.console import Console
from rich.table import Table
from torch import Tensor
from torch.nn import functional as F

OURS, TWIN = "dense, ours", "no compiler"
LINEAR, RETENTION, DELTA, PERFORMER, RFA, GATED = (
    "linear",
    "retention",
    "delta",
    "Performer 256",
    "RFA 64",
    "RFA 64, gate",
)
FLA_LINEAR, FLA_RETENTION, FLA_DELTA = "fla linear", "fla retention", "fla delta"
PERFORMER_PYTORCH = "performer-pytorch 256"
KERNELS: dict[str, dict[str, Any]] = {
    OURS: {"kind": "softmax"},
    LINEAR: {"kind": "linear"},
    RETENTION: {"kind": "retention"},
    DELTA: {"kind": "delta"},
    PERFORMER: {"kind": "performer", "features": 256},
    RFA: {"kind": "rfa", "features": 64},
    GATED: {"kind": "rfa", "features": 64, "gate": True},
}
TWINS = tuple(f"{name}, {TWIN}" for name in (LINEAR, RETENTION, DELTA, PERFORMER, RFA))
LONGEST = {PERFORMER_PYTORCH: 1024, FLA_DELTA: 4096}
"""Where a contestant would need more memory or time than there is."""
GOALS: tuple[tuple[str, str, int, float], ...] = (
    (PERFORMER, PERFORMER_PYTORCH, 1024, 8.0),
    (PERFORMER, DENSE, 16384, 8.0),
    (LINEAR, FLA_LINEAR, 4096, 1.0),
    (RETENTION, FLA_RETENTION, 4096, 1.0),
    (DELTA, FLA_DELTA, 4096, 1.0),
    *routed.GOALS,
)

app = App(help_flags=["--help"], version_flags=[])


def ours(name: str, length: int) -> Attend:
    """As a model runs it, the look-up of the path included."""
    from sublayer.nn.attention import MultiHead, View
    from sublayer.nn.attention.kernel import Kernel, recurrence, recurrent
    from sublayer.nn.part import Slot
    from sublayer.nn.scene import Scene

    name, twin = name.removesuffix(f", {TWIN}"), name.endswith(TWIN)
    part = MultiHead.Config(heads=HEADS, kernel=Kernel.Config.parse(KERNELS[name])).build(Slot(HEADS * HEAD))
    x_BLD = torch.randn(1, length, HEADS * HEAD)

    def view() -> View:
        known = Scene(torch.arange(length)[None]), part.position, part.config.pattern, part.config.memory
        return View(*known, heads=HEADS, x_BLD=x_BLD)

    def attend(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        if not twin:
            return part.kernel(q, k, v, view())[0]
        found, recurrent._by_chunks = recurrent._by_chunks, recurrence.chunkwise
        try:
            return part.kernel(q, k, v, view())[0]
        finally:
            recurrent._by_chunks = found

    return attend


def fla(room: str) -> Any:
    """One room's naive forms, a file read by itself: the package as a whole needs tools of GPUs."""
    file = distribution("fla-core").locate_file(f"fla/ops/{room}/naive.py")
    spec = importlib.util.spec_from_file_location(f"fla_{room}", str(file))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _by_tokens(run: Callable[..., Any]) -> Attend:
    """fla's forms take (B, L, H, K)."""

    def attend(*qkv: Tensor) -> Tensor:
        found = run(*(x.transpose(1, 2) for x in qkv))
        return (found[0] if isinstance(found, tuple) else found).transpose(1, 2)

    return attend


def fla_linear(length: int) -> Attend:
    chunked = fla("linear_attn").naive_chunk_linear_attn
    return _by_tokens(lambda q, k, v: chunked(F.elu(q) + 1, F.elu(k) + 1, v, normalize=True))


def fla_retention(length: int) -> Attend:
    chunked = fla("simple_gla").naive_chunk_simple_gla
    fade_BLH = torch.log1p(-torch.exp2(-5.0 - torch.arange(HEADS))).expand(1, length, HEADS)
    return _by_tokens(lambda q, k, v: chunked(q, k, v, fade_BLH))


def fla_delta(length: int) -> Attend:
    chunked = fla("gated_delta_rule").naive_chunk_gated_delta_rule
    fade_BLH, strength_BLH = torch.full((1, length, HEADS), -0.01), torch.full((1, length, HEADS), 0.5)

    def run(q: Tensor, k: Tensor, v: Tensor) -> Any:
        return chunked(F.normalize(q, dim=-1), F.normalize(k, dim=-1), v, fade_BLH, strength_BLH)

    return _by_tokens(run)


def performer_pytorch(length: int) -> Attend:
    from performer_pytorch import FastAttention

    return FastAttention(dim_heads=HEAD, nb_features=256, causal=True)


PEERS = {
    DENSE: sdpa,
    FLA_LINEAR: fla_linear,
    FLA_RETENTION: fla_retention,
    FLA_DELTA: fla_delta,
    PERFORMER_PYTORCH: performer_pytorch,
}
NAMES = (DENSE, *KERNELS, *TWINS, FLA_LINEAR, FLA_RETENTION, FLA_DELTA, PERFORMER_PYTORCH, *routed.NAMES)


def build(name: str, length: int) -> Callable[[], None]:
    if name in routed.NAMES:
        return pass_of(routed.attend(name, length), length)
    return pass_of(PEERS[name](length) if name in PEERS else ours(name, length), length)


def in_fresh_process(name: str, length: int) -> Callable[[], object]:
    """For the high-water mark: inputs are there, threads and buffers of the libraries too, by a short run."""
    torch.set_num_threads(1)
    build(name, 256)()
    return build(name, length)


def length_table(length: int, race: harness.Race, memory: dict[str, list[int]]) -> Table:
    table = Table(title=f"{length:,} tokens, forward + backward")
    for column in ("contestant", "ms", "quartiles", "× dense SDPA", "MB", "KB a token"):
        table.add_column(column, justify="left" if column == "contestant" else "right")
    for name in race.seconds:
        low, high = (1e3 * edge for edge in race.quartiles(name))
        row = [name, f"{1e3 * race.median(name):,.1f}", f"{low:,.1f}–{high:,.1f}"]
        row += [f"{race.median(DENSE) / race.median(name):.2f}" if DENSE in race.seconds else ""]
        if taken := memory.get(name):
            row += [f"{middle(taken) / 1e6:,.0f}", f"{middle(taken) / length / 1e3:,.1f}"]
        table.add_row(*row)
    return table


def judged(races: dict[int, harness.Race], memory: dict[int, dict[str, list[int]]]) -> Table:
    table = Table("goal", "measured", "wanted", "", title="goals")
    judge_speed(table, GOALS, races)
    judge_growth(table, (name for name in KERNELS if name != OURS), races, memory)
    judge_growth(table, routed.OURS, races, memory, routed.MOST_EXPONENT)
    return table


@app.default
def main(
    *,
    lengths: Annotated[tuple[int, ...], Parameter(consume_multiple=True)] = LENGTHS,
    only: str = "",
    repeats: int = 5,
    seconds: float = 0.0,
    memory: bool = True,
    json_out: Path | None = None,
) -> None:
    """Attention in linear time beside dense, and beside other libraries'.

    Parameters
    ----------
    lengths
        Tokens, several allowed.
    only
        Only contestants whose name contains one of these, separated by commas.
    repeats
        Rounds at least.
    seconds
        Time for the rounds of one length beyond those.
    memory
        Whether peak memory is measured too.
    json_out
        Where the result goes; benchmarks/results/linear.json if not given.
    """
    console = Console(width=None if Console().is_terminal else 140)
    torch.set_num_threads(1)
    machine = harness.fingerprint("fla-core", "performer-pytorch", *routed.PACKAGES)
    races: dict[int, harness.Race] = {}
    taken: dict[int, dict[str, list[int]]] = {}
    for length in lengths:
        names = [name for name in NAMES if any(wanted in name for wanted in only.split(","))]
        names = [name for name in names if name not in routed.MISSING]
        names = [name for name in names if length <= LONGEST.get(name, length)]
        races[length] = measure(build, length, names, repeats, seconds, console)
        taken |= {length: measure_memory(__file__, length, names, console)} if memory else {}
        console.print(length_table(length, races[length], taken.get(length, {})))
    console.print(judged(races, taken))
    report = {
        "machine": machine,
        "lengths": dumped(races, taken),
        "goals": GOALS,
    }
    console.print(f"written to {harness.write('linear', report, json_out)}")


if __name__ == "__main__":
    app()
