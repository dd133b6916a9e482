"""What a folder of runs holds, one record a run; a run that cannot be read does not hide the others."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sublayer.runs.metrics import ValidLine, comparable, read_lines
from sublayer.runs.run import Run, find


@dataclass(frozen=True)
class RunSummary:
    """How far a run came, from its files alone; no model is built."""

    run: str
    layout: str
    dim: int
    params: int
    steps: int
    of: int | None
    """The budget in steps."""
    tokens: int
    valid_loss: float | None
    """The lowest."""
    valid_bits_per_byte: float | None
    """Where the loss is lowest; of images, `valid_bits_per_dim`."""
    valid_bits_per_dim: float | None
    minutes: float
    checkpoints: list[int]


@dataclass(frozen=True)
class RunProblem:
    """A run that cannot be read, and why, in one line."""

    run: str
    error: str


def summaries(folder: Path | str) -> list[RunSummary | RunProblem]:
    """Of every run in a folder, and in the folders inside it."""
    return [attempt(run, summarise) for run in find(folder)]


def attempt(run: Run, read: Callable[[Run], Any]) -> Any:
    """The result of `read` for a run, or the problem."""
    try:
        return read(run)
    except (ValueError, OSError, NotImplementedError, RecursionError) as error:
        why = " ".join(str(error).split()) or type(error).__name__
        return RunProblem(str(run.path), why if str(run.path) in why else f"{run.path}: {why}")


def summarise(run: Run) -> RunSummary:
    lines = read_lines(run.metrics)
    scored = [line for line in read_lines(comparable(run.metrics)) if isinstance(line, ValidLine)]
    best = min(scored, key=lambda line: line.loss, default=None)
    stacks, steps = run.model_config.stacks, run.request.train.get("steps")
    return RunSummary(
        run=str(run.path),
        layout=" → ".join(stack.layout for stack in stacks.values()),
        dim=run.model_config.dim,
        params=run.model_config.cost().params,
        steps=lines[-1].step if lines else 0,
        of=steps if isinstance(steps, int) else None,
        tokens=lines[-1].tokens if lines else 0,
        valid_loss=best.loss if best else None,
        valid_bits_per_byte=best.figures.get("bits_per_byte") if best else None,
        valid_bits_per_dim=best.figures.get("bits_per_dim") if best else None,
        minutes=round(run.seconds / 60, 2),
        checkpoints=[one.step for one in run.checkpoints],
    )
