"""One training step, forward and backward, beside x-transformers and Hugging Face's GPT-2.

All three are GPT-2 as each library spells it, in fp32: learned positions, pre-norm with a LayerNorm
at the end, head size 64, inner width 4·dim, tied embeddings, next-token cross entropy over 256 tokens.

- Activation: the erf GELU for all, which is x-transformers' own and the fastest of all three; `--activation gelu_tanh`
  gives all three GPT-2's (Hugging Face's `gelu_pytorch_tanh`, the fused form of its default `gelu_new`), and `own`
  gives each its own default.
- x-transformers: flash attention on; its LayerNorm has no bias, nor have its attention's projections, so it has fewer
  parameters, by less than 1 %. The loss is plain cross entropy on its logits, faster than its AutoregressiveWrapper.
- Hugging Face: SDPA attention, no cache, the loss by its labels, shifted beforehand.
- Without dropout. `--dropout 0.2` gives all three that rate on attention weights, on what each part adds, and on
  embeddings, as GPT-2 has it, and adds ours without dropout as a fourth.

The share of the GEMM peak takes 3× the forward pass's matmul work as the work of a step (`config.cost`), where causal
attention counts its full rectangle.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import harness
import high_water
import torch
from cyclopts import App, Parameter
from rich.console import Console
from rich.table import Table
from torch import Tensor, nn
from torch.nn import functional as F

BATCH, HEAD, VOCAB = 8, 64, 256
MEMORY_RUNS = 3
GOAL = {"each shape": 0.97, "geometric mean": 1.0, "share of GEMM peak": 0.85}
NAMES = {"ours": "sublayer", "x-transformers": "x-transformers", "hugging-face": "transformers"}
PEERS = ("x-transformers", "hugging-face")
PLAIN = "ours, no dropout"
MOST_FOR_DROPOUT = 1.25
"""A step with dropout takes at most so many times as long as one without."""

Activation = Literal["gelu", "gelu_tanh", "own"]
Loss = Callable[[Tensor, Tensor], Tensor]


@dataclass(frozen=True)
class Shape:
    dim: int
    layers: int
    length: int

    @classmethod
    def parse(cls, text: str) -> Shape:
        try:
            dim, layers, length = (int(number) for number in text.split("/"))
        except ValueError:
            raise ValueError(f"shapes: expected dim/layers/length, as in 256/4/128, got {text!r}") from None
        if dim % HEAD:
            raise ValueError(f"shapes: dim {dim} is no multiple of the head size, {HEAD}; use {-(-dim // HEAD) * HEAD}")
        return cls(dim, layers, length)

    @property
    def heads(self) -> int:
        return self.dim // HEAD

    def __str__(self) -> str:
        return f"{self.dim}/{self.layers}/{self.length}"


SHAPES = ("256/4/128", "384/6/256", "512/8/512")


def our_config(shape: Shape, activation: Activation, dropout: float = 0.0) -> Any:
    import sublayer

    rates = {"s.dropout": dropout, "f.dropout": 0.0, "embedding.dropout": dropout, "residual.dropout": dropout}
    act = "gelu_tanh" if activation == "own" else activation
    changes = {"s.heads": shape.heads, "f.activation": act, "position.limit": shape.length, **rates}
    return sublayer.config("gpt2", changes, vocab=VOCAB, dim=shape.dim, layout=f"(sf)x{shape.layers}")


def ours(shape: Shape, activation: Activation, dropout: float = 0.0) -> tuple[nn.Module, Loss]:
    from sublayer.nn.attention import native

    model = our_config(shape, activation, dropout).build()
    native.digest()  # native code is compiled, or read, before anything is measured

    def loss(inputs_BL: Tensor, targets_BL: Tensor) -> Tensor:
        h_BLD, _ = model(inputs_BL)
        return model.head.loss(h_BLD, targets_BL)

    return model, loss


def x_transformers(shape: Shape, activation: Activation, dropout: float = 0.0) -> tuple[nn.Module, Loss]:
    from x_transformers import Decoder, TransformerWrapper

    act = nn.GELU(approximate="tanh" if activation == "gelu_tanh" else "none")
    layers = Decoder(
        dim=shape.dim,
        depth=shape.layers,
        heads=shape.heads,
        attn_dim_head=HEAD,
        attn_flash=True,
        ff_custom_activation=act,
        attn_dropout=dropout,
        attn_sublayer_dropout=dropout,
        ff_sublayer_dropout=dropout,
        verbose=False,
    )
    sizes = {"num_tokens": VOCAB, "max_seq_len": shape.length}
    model = TransformerWrapper(**sizes, emb_dropout=dropout, tie_embedding=True, attn_layers=layers)

    def loss(inputs_BL: Tensor, targets_BL: Tensor) -> Tensor:
        return F.cross_entropy(model(inputs_BL).flatten(0, 1), targets_BL.flatten())

    return model, loss


def hugging_face(shape: Shape, activation: Activation, dropout: float = 0.0) -> tuple[nn.Module, Loss]:
    from transformers import GPT2Config, GPT2LMHeadModel
    from transformers.utils import logging

    logging.set_verbosity_error()
    config = GPT2Config(
        vocab_size=VOCAB,
        n_positions=shape.length,
        n_embd=shape.dim,
        n_layer=shape.layers,
        n_head=shape.heads,
        activation_function={"gelu": "gelu", "gelu_tanh": "gelu_pytorch_tanh", "own": "gelu_new"}[activation],
        resid_pdrop=dropout,
        embd_pdrop=dropout,
        attn_pdrop=dropout,
        use_cache=False,
        bos_token_id=0,
        eos_token_id=0,
        attn_implementation="sdpa",
    )
    model = GPT2LMHeadModel(config)

    def loss(inputs_BL: Tensor, targets_BL: Tensor) -> Tensor:
        return model(inputs_BL, labels=targets_BL, shift_labels=targets_BL).loss

    return model, loss


BUILDERS = {"ours": ours, "x-transformers": x_transformers, "hugging-face": hugging_face}


def batch(length: int, rows: int = BATCH) -> tuple[Tensor, Tensor]:
    tokens = torch.randint(VOCAB, (rows, length + 1), generator=torch.Generator().manual_seed(0))
    return tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous()


def step(model: nn.Module, loss: Loss, inputs_BL: Tensor, targets_BL: Tensor) -> None:
    model.zero_grad(set_to_none=True)
    loss(inputs_BL, targets_BL).backward()


def build(
    name: str, shape: Shape, activation: Activation, dropout: float = 0.0
) -> tuple[nn.Module, Callable[[], None]]:
    """A model in training mode, and its step on the batch that all contestants share."""
    torch.manual_seed(0)
    model, loss = BUILDERS[name](shape, activation, dropout)
    inputs_BL, targets_BL = batch(shape.length)
    return model.train(), lambda: step(model, loss, inputs_BL, targets_BL)


def in_fresh_process(name: str, shape: str, activation: Activation, dropout: float, threads: int) -> Callable[[], None]:
    """For the high-water mark. A tiny step first starts the libraries' threads and buffers; then three real ones."""
    torch.set_num_threads(threads)
    model, run = build(name, Shape.parse(shape), activation, dropout)
    _, loss = BUILDERS[name](Shape(HEAD, 1, 8), activation, dropout)
    loss(*batch(8, rows=1)).backward()
    model.zero_grad(set_to_none=True)
    return lambda: [run() for _ in range(3)] and None


def measure_shape(
    shape: Shape,
    activation: Activation,
    dropout: float,
    repeats: int,
    seconds: float,
    clock: str,
    console: Console,
) -> dict[str, Any]:
    built = {name: build(name, shape, activation, dropout) for name in BUILDERS}
    if dropout:
        built[PLAIN] = build("ours", shape, activation, 0.0)
    params = {name: sum(p.numel() for p in model.parameters()) for name, (model, _) in built.items()}
    assert all(abs(count / params["ours"] - 1) <= 0.01 for count in params.values()), f"unequal parameters: {params}"
    tick = harness.CLOCKS[clock]
    peak = harness.gemm_peak(clock=tick)
    with harness.progress(console) as bar:
        task = bar.add_task(str(shape), total=None, said="warming up")

        def show(race: harness.Race) -> None:
            bar.update(task, said=f"round {race.rounds}, ratio {race.speedup('ours', *PEERS)}")

        steps = {name: run for name, (_, run) in built.items()}
        race = harness.race(steps, "ours", repeats=repeats, seconds=seconds, clock=tick, on_round=show)
    peak = max(peak, harness.gemm_peak(clock=tick))
    work = 3 * BATCH * our_config(shape, activation).cost(shape.length).flops.total
    return {"shape": str(shape), "params": params, "race": race, "peak": peak, "work": work}


def measure_memory(
    shape: Shape, activation: Activation, dropout: float, threads: int, console: Console
) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {name: [] for name in BUILDERS}
    with harness.progress(console) as bar:
        task = bar.add_task(f"{shape} memory", total=MEMORY_RUNS * len(found), said="")
        for _ in range(MEMORY_RUNS):
            for name, taken in found.items():
                given = {"name": name, "shape": str(shape), "activation": activation, "dropout": dropout}
                taken.append(high_water.rise(__file__, "in_fresh_process", **given, threads=threads))
                bar.advance(task)
    return found


def speed_table(results: list[dict[str, Any]], peak: float) -> Table:
    table = Table("shape", "contestant", "parameters", "ms a step", "quartiles", "tokens/s", "GEMM peak", "ours is")
    table.title = f"forward + backward, batch {BATCH}; measured GEMM peak {peak / 1e9:.1f} GFLOP/s"
    for result in results:
        race, shape = result["race"], Shape.parse(result["shape"])
        for name in race.seconds:
            low, high = race.quartiles(name)
            ratio = race.speedup("ours", name) if name != "ours" else None
            table.add_row(
                str(shape) if name == "ours" else "",
                name,
                f"{result['params'][name]:,}",
                f"{1e3 * race.median(name):.1f}",
                f"{1e3 * low:.1f}–{1e3 * high:.1f}",
                f"{BATCH * shape.length / race.median(name):,.0f}",
                f"{result['work'] / race.median(name) / peak:.1%}",
                "" if ratio is None else f"{ratio}× {ratio.verdict()}",
                end_section=name == list(race.seconds)[-1],
            )
    return table


def memory_table(memory: dict[str, dict[str, list[int]]]) -> Table:
    table = Table("shape", *(f"{name}, MiB" for name in BUILDERS), "ours / least peer")
    table.title = "high-water increase of a fresh process, three steps"
    for shape, found in memory.items():
        middle = {name: sorted(taken)[len(taken) // 2] / 2**20 for name, taken in found.items()}
        least = min(middle[peer] for peer in PEERS)
        table.add_row(shape, *(f"{middle[name]:.0f}" for name in BUILDERS), f"{middle['ours'] / least:.3f}")
    return table


app = App(name="train_step", help=__doc__.split("\n")[0], version_flags=[])


@app.default
def main(
    *,
    shapes: Annotated[tuple[str, ...], Parameter(consume_multiple=True)] = SHAPES,
    repeats: int = 7,
    seconds: float = 120.0,
    json_out: Path | None = None,
    threads: int | None = None,
    activation: Activation = "gelu",
    dropout: float = 0.0,
    clock: Literal["wall", "cpu"] = "wall",
    memory: bool = True,
) -> None:
    """Forward and backward of three libraries' GPT-2, side by side.

    Parameters
    ----------
    shapes
        dim/layers/length, several allowed.
    repeats
        Rounds at least.
    seconds
        Time for the rounds of one shape beyond those.
    json_out
        Where the result goes; benchmarks/results/train_step.json if not given.
    threads
        All cores if not given.
    activation
        Of all contestants; own: each library's own default.
    dropout
        Rate for all contestants; then ours without dropout runs beside them.
    clock
        wall, or cpu (processor time, for a busy machine; use one thread).
    memory
        Whether peak memory is measured too.
    """
    console = Console(width=None if Console().is_terminal else 140)
    wanted = [Shape.parse(text) for text in shapes]
    torch.set_num_threads(threads or torch.get_num_threads())
    machine = harness.fingerprint("x-transformers", "transformers")
    results = [measure_shape(shape, activation, dropout, repeats, seconds, clock, console) for shape in wanted]
    peak = max(result["peak"] for result in results)
    console.print(speed_table(results, peak))
    ratios = {result["shape"]: result["race"].speedup("ours", *PEERS) for result in results}
    mean = harness.geometric_mean(ratios.values())
    for shape, ratio in ratios.items():
        console.print(f"{shape}: ours / fastest peer {ratio}×, {ratio.verdict()}; goal ≥ {GOAL['each shape']}")
    for result in results if dropout else ():
        taken = result["race"].speedup(PLAIN, "ours")
        console.print(f"{result['shape']}: with dropout {dropout} {taken}× the time; goal ≤ {MOST_FOR_DROPOUT}")
    console.print(f"geometric mean: {mean}×, {mean.verdict()}; goal ≥ {GOAL['geometric mean']}")
    found: dict[str, dict[str, list[int]]] = {}
    if memory:
        how = activation, dropout, machine["threads"], console
        found = {str(shape): measure_memory(shape, *how) for shape in wanted}
        console.print(memory_table(found))
    report = {
        "machine": machine,
        "activation": activation,
        "dropout": dropout,
        "clock": clock,
        "goals": GOAL,
        "gemm_peak_flops": peak,
        "geometric_mean": mean.dump(),
        "shapes": [
            {
                "shape": result["shape"],
                "params": result["params"],
                "step_flops": result["work"],
                "share_of_peak": result["work"] / result["race"].median("ours") / peak,
                "against_fastest": ratios[result["shape"]].dump(),
                "contestants": result["race"].dump(),
                "peak_memory_bytes": found.get(result["shape"]),
            }
            for result in results
        ],
    }
    console.print(f"written to {harness.write('train_step', report, json_out)}")


if __name__ == "__main__":
    app()
