"""Sparse attention beside dense, and beside other libraries': time and memory, forward and backward.

    python benchmarks/sparse.py                                    # everything; an hour on two slow cores
    python benchmarks/sparse.py --lengths 4096 --only 'window' --no-memory
    python benchmarks/sparse.py --before ../old/src                # windows, against an older checkout

Eight heads of 64, one row, fp32, one thread. All are given the same queries, keys and values, (1, L, 512) as a
projection leaves them, and the same gradient; no one's projections are timed. Time is the processor's.

- Dense, causal: PyTorch's SDPA, and ours in C. Sparse, ours: a window of 256; Sparse Transformer's strided and fixed of
  128 (8 summaries), merged in one head; a window of 256 on either side, as Longformer's; BigBird of blocks of 64: three
  neighbours, two global blocks, three random ones, looking both ways. "no compiler": the twin in PyTorch.
- local-attention, causal, window 256: a query sees its block of 256 and the one before, so 256 to 512 keys.
- Hugging Face's Longformer (attention_window 512) and BigBird (block 64, 3 random): their self-attention modules, built
  from a config, whose three projections give the queries, keys and values of all. BigBird is in training mode: in
  evaluation all its random blocks are the first. Their masks are made beforehand, as their models do, for all layers.

The share of the GEMM peak counts the pairs that a query sees, seven products each: two forward and five backward.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import harness
import same_speed
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
from torch import Tensor, nn

PRODUCTS = 7
OURS, TWIN = "dense, ours", "no compiler"
WINDOW, STRIDED, FIXED, TWO_SIDED, BIGBIRD = (
    "window 256",
    "strided 128",
    "fixed 128",
    "two-sided window",
    "BigBird",
)
LOCAL, HF_LONGFORMER, HF_BIGBIRD = "local-attention 256", "Hugging Face Longformer", "Hugging Face BigBird"

GOALS: tuple[tuple[str, str, int, float], ...] = (
    (OURS, DENSE, 1024, 1.0),
    (OURS, DENSE, 4096, 1.0),
    (OURS, DENSE, 16384, 1.0),
    (WINDOW, LOCAL, 4096, 4.5),
    (WINDOW, LOCAL, 16384, 4.5),
    (WINDOW, DENSE, 16384, 20.0),
    (BIGBIRD, HF_BIGBIRD, 4096, 3.5),
    (BIGBIRD, DENSE, 4096, 3.0),
    (BIGBIRD, HF_BIGBIRD, 16384, 6.0),
    (BIGBIRD, DENSE, 16384, 9.0),
    (TWO_SIDED, HF_LONGFORMER, 4096, 9.0),
    (STRIDED, DENSE, 4096, 3.0),
    (FIXED, DENSE, 4096, 3.0),
    *((name, OURS, 1024, 0.95) for name in (WINDOW, STRIDED, FIXED, TWO_SIDED, BIGBIRD)),
    *((f"{name}, {TWIN}", DENSE, 4096, 1 / 1.2) for name in (WINDOW, STRIDED, FIXED, TWO_SIDED, BIGBIRD)),
)
"""At this length the first is to be so many times as fast as the second."""
MOST_BYTES, MOST_EXPONENT, LEAST_BEFORE = 13_000, 1.1, 2.3
"""Of ours: bytes a token; growth of time and memory from 4,096 to 16,384; speed of a window against `--before`."""


def pattern(name: str) -> Any:
    """Ours, by the name of the contestant."""
    from sublayer.nn.attention import Causal, Window

    if name == OURS:
        return Causal.Config()
    if name == WINDOW:
        return Window.Config(size=256)
    from sublayer.nn.attention.pattern import BigBird, Fixed, Strided

    return {
        STRIDED: Strided.Config(stride=128),
        FIXED: Fixed.Config(stride=128, summary=8),
        TWO_SIDED: Window.Config(size=257, look="both"),
        BIGBIRD: BigBird.Config(block=64, beside=1, globals=2, random=3),
    }[name].at(0, 1)


def ours(name: str, length: int) -> Attend:
    """As a model runs it, the look-up of the path included."""
    from sublayer.nn import paths
    from sublayer.nn.attention import MultiHead, View
    from sublayer.nn.attention.kernel import softmax
    from sublayer.nn.memory import NoMemory
    from sublayer.nn.part import Slot
    from sublayer.nn.scene import Scene

    name, twin = name.removesuffix(f", {TWIN}"), name.endswith(TWIN)
    seen = pattern(name)
    part = MultiHead.Config(heads=HEADS, pattern=seen, memory=NoMemory.Config()).build(Slot(HEADS * HEAD))

    def view() -> View:
        known = Scene(torch.arange(length)[None]), part.position, seen, part.config.memory
        return View(*known, heads=HEADS) if "heads" in View.__dataclass_fields__ else View(*known)

    if twin:
        path = next(path for path in paths.registered(softmax.BANDS) if path.name == "bands of keys (PyTorch)")
        return lambda q, k, v: path.run(q, k, v, view())
    return lambda q, k, v: part.kernel(q, k, v, view())[0]


def local_attention(length: int) -> Attend:
    from local_attention import LocalAttention

    return LocalAttention(window_size=256, causal=True, look_backward=1, dropout=0.0)


class Given(nn.Module):
    """In a projection's place: what it would have given."""

    x_BLD: Tensor

    def forward(self, like: Tensor) -> Tensor:
        return self.x_BLD.reshape(like.shape).clone()  # Longformer scales its queries in place


def _with_given(module: Any, run: Callable[[Tensor], Tensor]) -> Attend:
    module.query, module.key, module.value = given = Given(), Given(), Given()

    def attend(*qkv: Tensor) -> Tensor:
        for one, x_BHLK in zip(given, qkv, strict=True):
            one.x_BLD = x_BHLK.transpose(1, 2).flatten(2)
        return run(given[0].x_BLD.detach()).unflatten(-1, (HEADS, HEAD)).transpose(1, 2)

    return attend


def longformer(length: int) -> Attend:
    from transformers import LongformerConfig
    from transformers.models.longformer.modeling_longformer import LongformerSelfAttention

    sizes = {"hidden_size": HEADS * HEAD, "num_attention_heads": HEADS, "num_hidden_layers": 1}
    config = LongformerConfig(attention_window=[512], attention_probs_dropout_prob=0.0, **sizes)
    module, seen = LongformerSelfAttention(config, 0).train(), torch.zeros(1, length)
    masked = {"attention_mask": seen, "is_index_masked": seen < 0, "is_index_global_attn": seen > 0}
    return _with_given(module, lambda x: module(x, is_global_attn=False, **masked)[0])


def bigbird(length: int) -> Attend:
    from transformers import BigBirdConfig, BigBirdModel
    from transformers.models.big_bird.modeling_big_bird import BigBirdBlockSparseAttention

    sizes = {"hidden_size": HEADS * HEAD, "num_attention_heads": HEADS, "max_position_embeddings": length}
    config = BigBirdConfig(block_size=64, num_random_blocks=3, attention_probs_dropout_prob=0.0, **sizes)
    module = BigBirdBlockSparseAttention(config, seed=0).train()
    blocks, band, rows, columns = BigBirdModel.create_masks_for_block_sparse_attn(torch.ones(1, length), 64)
    return _with_given(module, lambda x: module(x, band, rows, columns, blocks, blocks)[0])


PEERS = {DENSE: sdpa, LOCAL: local_attention, HF_LONGFORMER: longformer, HF_BIGBIRD: bigbird}
SPARSE = (WINDOW, STRIDED, FIXED, TWO_SIDED, BIGBIRD)
NAMES = (DENSE, OURS, *SPARSE, *(f"{name}, {TWIN}" for name in SPARSE), LOCAL, HF_LONGFORMER, HF_BIGBIRD)


def build(name: str, length: int) -> Callable[[], None]:
    return pass_of(PEERS[name](length) if name in PEERS else ours(name, length), length)


def in_fresh_process(name: str, length: int) -> Callable[[], object]:
    """For the high-water mark: inputs and masks are there, threads and buffers of the libraries too, by a short run."""
    torch.set_num_threads(1)
    build(name, 1024)()
    return build(name, length)


def pairs(name: str, length: int) -> int:
    """Query–key pairs that are seen, in all heads."""
    from sublayer.nn.attention.pattern.base import bands_of

    if name == DENSE:
        return pairs(OURS, length)
    bands = bands_of(pattern(name.removesuffix(f", {TWIN}")), HEADS, length, 0, 0)
    assert bands is not None
    each = ((band, int((band.hi - band.lo).clamp(min=0).sum())) for band in bands)
    return sum(count * (HEADS if band.heads is None else sum(band.heads)) for band, count in each)


def length_table(length: int, race: harness.Race, memory: dict[str, list[int]], peak: float) -> Table:
    table = Table("contestant", "ms", "quartiles", "GEMM peak", "× dense SDPA", "MB", "KB a token")
    table.title = f"{length:,} tokens, forward + backward; measured GEMM peak {peak / 1e9:.1f} GFLOP/s"
    for name in race.seconds:
        low, high = race.quartiles(name)
        known = name == DENSE or name not in PEERS
        work = PRODUCTS * 2 * HEAD * pairs(name, length) if known else 0
        taken = middle(memory[name]) if name in memory else None
        table.add_row(
            name,
            f"{1e3 * race.median(name):,.1f}",
            f"{1e3 * low:,.1f}–{1e3 * high:,.1f}",
            f"{work / race.median(name) / peak:.0%}" if known else "",
            f"{race.speedup(name, DENSE).value:.2f}" if DENSE in race.seconds else "",
            "" if taken is None else f"{taken / 1e6:,.0f}",
            "" if taken is None else f"{taken / 1e3 / length:.1f}",
        )
    return table


def judged(races: dict[int, harness.Race], memory: dict[int, dict[str, list[int]]]) -> Table:
    table = Table("goal", "measured", "wanted", "")
    judge_speed(table, GOALS, races)
    for length, found in memory.items():
        for name in found:
            if name in (OURS, *SPARSE):
                each = middle(found[name]) / length
                met = "met" if each <= MOST_BYTES else "missed"
                table.add_row(f"{name}: KB a token, {length:,}", f"{each / 1e3:.1f}", f"≤ {MOST_BYTES / 1e3:.0f}", met)
    judge_growth(table, SPARSE[:1] + SPARSE[3:], races, memory)
    return table


def work() -> None:
    """The process of one checkout: lengths a line, answered by the processor's seconds and the others' share."""
    torch.set_num_threads(1)
    made: dict[str, Callable[[], None]] = {}
    for line in sys.stdin:
        length = line.strip()
        if length not in made:
            made.clear()
            made[length] = build(WINDOW, int(length))
            made[length]()
        print(*harness.watched(made[length], time.process_time), flush=True)


def against(before: Path, after: Path, lengths: tuple[int, ...], seconds: float, console: Console) -> dict[str, Any]:
    """Windows by two checkouts, side by side."""
    checkouts = {
        side: same_speed.Checkout(source, 1, __file__) for side, source in (("before", before), ("after", after))
    }
    table, found = Table("window 256", "before, ms", "after, ms", "after is faster by", "wanted"), {}
    for length in lengths:
        race = same_speed.race(checkouts, str(length), seconds)
        ratio = race.speedup("after", "before")
        times = (f"{1e3 * race.median(side):,.1f}" for side in checkouts)
        table.add_row(f"{length:,}", *times, f"{ratio}×", f"≥ {LEAST_BEFORE}×" if length > 1024 else "")
        found[str(length)] = {"ratio": ratio.dump(), "race": race.dump()}
    console.print(table)
    return found


app = App(name="sparse", help=__doc__.split("\n")[0], version_flags=[])


@app.default
def main(
    *,
    lengths: Annotated[tuple[int, ...], Parameter(consume_multiple=True)] = LENGTHS,
    only: str = "",
    repeats: int = 5,
    seconds: float = 0.0,
    memory: bool = True,
    before: Path | None = None,
    after: Path = Path("src"),
    json_out: Path | None = None,
) -> None:
    """Sparse attention beside dense, and beside other libraries'.

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
    before
        The src folder of an older checkout: its window against that of `after`, and nothing else.
    json_out
        Where the result goes; benchmarks/results/sparse.json if not given.
    """
    console = Console(width=None if Console().is_terminal else 140)
    torch.set_num_threads(1)
    machine = harness.fingerprint("transformers", "local-attention")
    if before is not None:
        report = {"machine": machine, "window": against(before, after, lengths, seconds, console)}
        console.print(f"written to {harness.write('sparse_before', report, json_out)}")
        return
    names = [name for name in NAMES if any(wanted in name for wanted in only.split(","))]
    races, taken, peak = {}, {}, 0.0
    for length in lengths:
        peak = max(peak, harness.gemm_peak(clock=time.process_time))
        races[length] = measure(build, length, names, repeats, seconds, console)
        taken |= {length: measure_memory(__file__, length, names, console)} if memory else {}
        console.print(length_table(length, races[length], taken.get(length, {}), peak))
    console.print(judged(races, taken))
    report = {
        "machine": machine,
        "gemm_peak_flops": peak,
        "lengths": dumped(races, taken),
    }
    console.print(f"written to {harness.write('sparse', report, json_out)}")


if __name__ == "__main__":
    work() if "--work" in sys.argv else app()
