"""A text and models small enough to train in a moment, with dropout and memory as their papers have them."""

from pathlib import Path
from typing import Any

import sublayer
from sublayer.runs import Run

TEXT = "".join(f"line {n} of the naïve text, as it is\n" for n in range(60))
SMALL: dict[str, Any] = {
    "dim": 16,
    "layout": "(sf)x2",
    "s.heads": 2,
    "f.inner": 16,
    "train.steps": 4,
    "train.batch": 2,
    "train.length": 16,
    "train.warmup": 2,
}
OWN: dict[str, dict[str, Any]] = {"transformer-xl": {"s.memory.length": 8}}
STILL = {"s.dropout": 0.0, "embedding.dropout": 0.0, "residual.dropout": 0.0}
"""GPT-2 without dropout."""


def changes(paper: str = "gpt2", **more: Any) -> dict[str, Any]:
    """What makes a paper small; `train__steps=3` stands for train.steps=3."""
    return {**SMALL, **OWN.get(paper, {}), **{key.replace("__", "."): value for key, value in more.items()}}


def train(book: Path, out: Path, paper: str = "gpt2", **more: Any) -> Run:
    return sublayer.train(paper, str(book), out, changes(paper, **more), quiet=True)


def losses(run: Run, name: str = "loss") -> list[float]:
    return [line[name] for line in run.metrics if name in line]


def files(run: Path) -> dict[str, bytes]:
    """Every file but those that tell of time and machine."""
    told = {path.relative_to(run).as_posix(): path for path in sorted(run.rglob("*")) if path.is_file()}
    return {name: path.read_bytes() for name, path in told.items() if name not in APART}


APART = ("clock.jsonl", "environment.json", ".lock")
