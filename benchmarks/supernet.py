"""What a step of the differentiable search costs beside a step of the model it searches over, in one run.

Every place of the supernet holds an attention and a feed-forward, so twice the sublayers of the base; weights and the
architecture are moved in turn, and single-path sampling runs one letter a place. The paper reports less than twice the
training of its baseline, at the vocabulary of WikiText.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import harness
import torch
from cyclopts import App, Parameter
from rich.console import Console
from rich.table import Table

from sublayer.nas.supernet import draw
from sublayer.nas.supernet.searcher import ARCHITECTURE
from sublayer.nas.supernet.stack import Supernet, over
from sublayer.nn.model import Model
from sublayer.nn.model.single import SingleStack
from sublayer.papers.registry import config
from sublayer.training.optimizer import AdamW

SHARE = 0.2
"""Of the steps that are the architecture's."""
KINDS = ("base", "weights", "architecture", "one path")
BATCH, LENGTH = 8, 128
SMALL, WORDS = 256, 33_278
"""Vocabularies: bytes, and the words of WikiText-2."""
GOAL = {SMALL: 2.2, WORDS: 2.0}


def base(vocab: int) -> SingleStack.Config:
    made = config("gpt2").but({"s.heads": 4}, vocab=vocab, dim=128, layout="(sf)x8", position="rotary")
    assert isinstance(made, SingleStack.Config)
    return made


def stepper(made: SingleStack.Config, kind: str) -> Callable[[], None]:
    """One step of training on batches drawn anew."""
    torch.manual_seed(0)
    model: Model = (made if kind == "base" else over(made, "sf-")).build()
    stack, state = model.stack, None
    if isinstance(stack, Supernet):
        stack.draw = partial(draw.path if kind == "one path" else draw.shares, temperature=5.0)
        stack.remembers = made.carries
        for name, parameter in model.named_parameters():
            parameter.requires_grad_((name == ARCHITECTURE) == (kind == "architecture"))
    optimizer = AdamW.Config().build(model.parameters(), 1e-3)

    def step() -> None:
        nonlocal state
        ids = torch.randint(made.vocab, (BATCH, LENGTH + 1))
        h_BLD, after = model(ids[:, :-1], state)
        model.head.loss(h_BLD, ids[:, 1:]).backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        state = after.detach() if made.carries else None

    return step


def main(
    *,
    seconds: float = 60.0,
    threads: int | None = None,
    json_out: Annotated[Path | None, Parameter(name="--json")] = None,
) -> None:
    """Time all kinds of steps in turn, at a small vocabulary and at WikiText's.

    Parameters
    ----------
    seconds
        The longest time for each vocabulary.
    threads
        Processor threads.
    json_out
        Where to write the result; results/supernet.json if not given.
    """
    torch.set_num_threads(threads or torch.get_num_threads())
    console = Console(highlight=False)
    result: dict[str, Any] = {"machine": harness.fingerprint()}
    table = Table("vocabulary", *(f"{kind}, ms" for kind in KINDS), "search / base", "limit", box=None)
    for vocab, limit in GOAL.items():
        steps = {kind: stepper(base(vocab), kind) for kind in KINDS}
        done = harness.race(steps, "base", seconds=seconds)
        slower = {kind: done.speedup("base", kind) for kind in KINDS[1:]}
        whole = (1 - SHARE) * slower["weights"].value + SHARE * slower["architecture"].value
        times = (f"{1e3 * done.median(kind):.1f}" for kind in KINDS)
        table.add_row(f"{vocab:,}", *times, f"{whole:.2f}×", f"{limit}×")
        told = {kind: ratio.dump() for kind, ratio in slower.items()}
        result[str(vocab)] = {"search": whole, "over base": told, "race": done.dump()}
    console.print(table)
    console.print(f"written to {harness.write('supernet', result, json_out)}", style="dim")


if __name__ == "__main__":
    App(default_command=main, help=__doc__, help_format="plaintext")()
