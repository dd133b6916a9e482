"""Greedy generation, one prompt and a batch, beside Hugging Face's GPT-2 and x-transformers, all in eager PyTorch.

The models are those of train_step.py: GPT-2 as each library spells it, in fp32, 11 M parameters, a vocabulary of 256.
Each writes the same number of ids after the same prompts, from a cache of keys and values; nothing ends a text.

- ours: `sublayer.generation.generate`, with its native step; ours-eager: the same without it, in PyTorch alone.
- hugging-face: `generate` with its dynamic cache, greedy, min = max new tokens.
- x-transformers: `AutoregressiveWrapper.generate` with cache_kv, temperature 0.

Memory sets the limit of one text: each token reads every weight, and the keys and values so far. The share of it takes
the bandwidth of reading as many bytes as one token does, measured in the same run.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Literal

import harness
import torch
from cyclopts import App, Parameter
from rich.console import Console
from rich.table import Table
from torch import Tensor, nn
from train_step import VOCAB, Activation, Shape, hugging_face, our_config, ours, x_transformers

from sublayer.generation import generate

DIM, LAYERS = 384, 6
STEPS = 32
"""Tokens behind a cost at a given length."""
PEERS = ("hugging-face", "x-transformers")
GOAL = {"one prompt": 1.6, "aim": 2.5}

Write = Callable[[Tensor, int], Any]


def write_ours(model: nn.Module, native: bool = True) -> Write:
    return lambda prompts_BL, tokens: generate(model, prompts_BL, tokens=tokens, native=native)


def write_hugging_face(model: Any) -> Write:
    from transformers import GenerationConfig

    model.generation_config = GenerationConfig(use_cache=True, do_sample=False, pad_token_id=0, eos_token_id=None)

    def write(prompts_BL: Tensor, tokens: int) -> Tensor:
        mask_BL = torch.ones_like(prompts_BL)
        out = model.generate(prompts_BL, attention_mask=mask_BL, min_new_tokens=tokens, max_new_tokens=tokens)
        return out[:, prompts_BL.shape[1] :]

    return write


def write_x_transformers(model: Any) -> Write:
    from x_transformers import AutoregressiveWrapper

    wrapped = AutoregressiveWrapper(model).eval()
    return lambda prompts_BL, tokens: wrapped.generate(prompts_BL, tokens, temperature=0.0, cache_kv=True)


def build(
    limit: int, activation: Activation, peers: tuple[str, ...] = PEERS
) -> tuple[dict[str, nn.Module], dict[str, Write]]:
    """Models with so many positions, and how each writes."""
    builders = {"ours": ours, "hugging-face": hugging_face, "x-transformers": x_transformers}
    write_peer = {"hugging-face": write_hugging_face, "x-transformers": write_x_transformers}
    models = {}
    for name in ("ours", *peers):
        torch.manual_seed(0)
        models[name] = builders[name](Shape(DIM, LAYERS, limit), activation)[0].eval()
    own = {"ours": write_ours(models["ours"]), "ours-eager": write_ours(models["ours"], native=False)}
    return models, own | {name: write_peer[name](models[name]) for name in peers}


def prompts(rows: int, length: int) -> Tensor:
    return torch.randint(VOCAB, (rows, length), generator=torch.Generator().manual_seed(0))


def contestants(writers: dict[str, Write], prompts_BL: Tensor, tokens: int) -> dict[str, Callable[[], object]]:
    """One run each; what it writes is looked at once, beforehand."""
    for name, write in writers.items():
        written = write(prompts_BL, tokens)
        lengths = {len(row) for row in written}
        assert lengths == {tokens}, f"{name} wrote {lengths} ids, asked for {tokens}"
    return {name: lambda write=write: write(prompts_BL, tokens) for name, write in writers.items()}


def read_bandwidth(size: int, repeats: int = 20, clock: Callable[[], float] = time.perf_counter) -> float:
    """Bytes a second of the best pass over so many bytes."""
    x = torch.ones(size // 4)
    return x.nbytes / min(harness.timed(read, clock) for read in (x.sum, x.amax) for _ in range(repeats))


def bytes_a_token(activation: Activation, length: int) -> int:
    """Weights of the stack and the head, and keys and values of `length` places, in fp32."""
    cost = our_config(Shape(DIM, LAYERS, length), activation).cost()
    return 4 * (cost.stack + cost.final_norm + VOCAB * DIM + 2 * LAYERS * DIM * length)


def run(
    title: str, runs: dict[str, Callable[[], object]], repeats: int, seconds: float, clock: str, console: Console
) -> harness.Race:
    with harness.progress(console) as bar:
        task = bar.add_task(title, total=None, said="warming up")

        def show(race: harness.Race) -> None:
            bar.update(task, said=f"round {race.rounds}, ratio {race.speedup('ours', *PEERS)}")

        return harness.race(
            runs, "ours", repeats=repeats, seconds=seconds, warm_up=1, clock=harness.CLOCKS[clock], on_round=show
        )


def cost_at(length: int, activation: Activation, **how: Any) -> dict[str, float]:
    """Seconds a token with so many places before it: what `STEPS` more cost after a prompt, in each round."""
    _, writers = build(length + STEPS + 1, activation)
    whole = contestants(writers, prompts(1, length), STEPS + 1)
    first = {f"{name}, prompt": run for name, run in contestants(writers, prompts(1, length), 1).items()}
    race = run(f"length {length}", {**whole, **first}, **how)
    rounds = {name: zip(race.seconds[name], race.seconds[f"{name}, prompt"], strict=True) for name in writers}
    return {name: statistics.median(all - one for all, one in pairs) / STEPS for name, pairs in rounds.items()}


def speed_table(race: harness.Race, rows: int, tokens: int, limit: float | None = None) -> Table:
    """`limit`: tokens a second at which memory is read as fast as it can be."""
    table = Table("contestant", "tokens/s", "ms a step, quartiles", *(["of the limit"] if limit else []), "ours is")
    table.title = f"{tokens} ids after {rows} prompt{'s' if rows > 1 else ''}"
    for name in race.seconds:
        speed, (low, high) = rows * tokens / race.median(name), race.quartiles(name)
        share = [f"{speed / limit:.1%}"] if limit else []
        ratio = race.speedup("ours", name) if name != "ours" else None
        said = "" if ratio is None else f"{ratio}× {ratio.verdict()}"
        table.add_row(name, f"{speed:,.0f}", f"{1e3 * low / tokens:.2f}–{1e3 * high / tokens:.2f}", *share, said)
    return table


def length_table(costs: dict[int, dict[str, float]]) -> Table:
    names = list(next(iter(costs.values())))
    table = Table("places before", *(f"{name}, ms" for name in names), title="cost of one more token")
    for length, found in costs.items():
        table.add_row(str(length), *(f"{1e3 * found[name]:.2f}" for name in names))
    return table


app = App(name="generate", help=__doc__.split("\n")[0], version_flags=[])


@app.default
def main(
    *,
    tokens: int = 200,
    prompt: int = 16,
    batch: int = 16,
    lengths: Annotated[tuple[int, ...], Parameter(consume_multiple=True)] = (64, 256, 1024),
    repeats: int = 7,
    seconds: float = 90.0,
    json_out: Path | None = None,
    threads: int | None = None,
    activation: Activation = "gelu",
    clock: Literal["wall", "cpu"] = "wall",
) -> None:
    """Greedy generation of three libraries' GPT-2, side by side.

    Parameters
    ----------
    tokens
        Ids to write after each prompt.
    prompt
        Ids in each prompt.
    batch
        Prompts of the second race.
    lengths
        Places before the tokens whose cost is measured, several allowed.
    repeats
        Rounds at least.
    seconds
        Time for the rounds of one race beyond those.
    json_out
        Where the result goes; benchmarks/results/generate.json if not given.
    threads
        All cores if not given.
    activation
        Of all contestants; own: each library's own default.
    clock
        wall, or cpu (processor time, for a busy machine; use one thread).
    """
    console = Console(width=None if Console().is_terminal else 140)
    torch.set_num_threads(threads or torch.get_num_threads())
    machine, tick = harness.fingerprint("x-transformers", "transformers"), harness.CLOCKS[clock]
    how: dict[str, Any] = {"repeats": repeats, "seconds": seconds, "clock": clock, "console": console}
    models, writers = build(prompt + tokens, activation)
    params = {name: sum(p.numel() for p in model.parameters()) for name, model in models.items()}
    assert all(abs(count / params["ours"] - 1) <= 0.01 for count in params.values()), f"unequal parameters: {params}"

    size = bytes_a_token(activation, prompt + tokens // 2)
    bandwidth = read_bandwidth(size, clock=tick)
    one = run("one prompt", contestants(writers, prompts(1, prompt), tokens), **how)
    bandwidth = max(bandwidth, read_bandwidth(size, clock=tick))
    against = one.speedup("ours", *PEERS)
    console.print(speed_table(one, 1, tokens, bandwidth / size))
    console.print(
        f"a token reads {size / 1e6:.1f} MB; read at {bandwidth / 1e9:.1f} GB/s that allows {bandwidth / size:,.0f} "
        f"tokens/s\nours / fastest peer {against}×, {against.verdict()}; goal ≥ {GOAL['one prompt']}, "
        f"{against.verdict(GOAL['one prompt'])}; aim {GOAL['aim']}, {against.verdict(GOAL['aim'])}"
    )
    many = run(f"{batch} prompts", contestants(writers, prompts(batch, prompt), tokens), **how)
    scaling = {name: batch * one.median(name) / many.median(name) for name in writers}
    console.print(speed_table(many, batch, tokens))
    said = ", ".join(f"{name} {factor:.1f}×" for name, factor in scaling.items())
    console.print(f"tokens/s of {batch} prompts over those of one: {said}")
    costs = {length: cost_at(length, activation, **how) for length in lengths}
    console.print(length_table(costs)) if costs else None
    report = {
        "machine": machine,
        "model": {"dim": DIM, "layers": LAYERS, "vocab": VOCAB, "activation": activation, "params": params},
        "clock": clock,
        "prompt": prompt,
        "tokens": tokens,
        "goals": GOAL,
        "bytes_a_token": size,
        "read_bandwidth": bandwidth,
        "one": {
            "contestants": one.dump(),
            "tokens_a_second": {name: tokens / one.median(name) for name in writers},
            "share_of_limit": {name: tokens / one.median(name) / (bandwidth / size) for name in writers},
            "ratios": {name: one.speedup("ours", name).dump() for name in writers if name != "ours"},
            "against_fastest": against.dump(),
        },
        "batch": {
            "rows": batch,
            "contestants": many.dump(),
            "tokens_a_second": {name: batch * tokens / many.median(name) for name in writers},
            "scaling": scaling,
            "against_fastest": many.speedup("ours", *PEERS).dump(),
        },
        "seconds_a_token_at_length": {str(length): found for length, found in costs.items()},
    }
    console.print(f"written to {harness.write('generate', report, json_out)}")


if __name__ == "__main__":
    app()
