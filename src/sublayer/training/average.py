"""Deletes old checkpoints, and averages the weights of the last."""

from __future__ import annotations

from collections.abc import Container

import torch

from sublayer.runs import Progress, Run
from sublayer.training.config import TrainConfig


def keep(run: Run, config: TrainConfig, progress: Progress) -> None:
    """Remove all checkpoints but the last ones and the best."""
    there = run.checkpoints
    last = {one.step for one in there[-max(config.keep, config.average) :]}
    for one in there:
        if one.step not in last and one.step != progress.best_step:
            one.remove()


def write(run: Run, count: int, drawn: Container[str] = ()) -> None:
    """Add to the last checkpoint the mean weights of the last `count` (Vaswani et al. 2017, section 6.1).

    drawn: what is not learned, such as random features; of those the last are kept."""
    last = run.checkpoints[-1]
    trained = [one for one in run.checkpoints if one.step] or [last]
    weights = [one.tensors("model") or {} for one in trained[-count:]]
    mean = {
        name: newest if name in drawn else torch.stack([w[name].double() for w in weights]).mean(0).to(newest)
        for name, newest in weights[-1].items()
    }
    last.add("average", mean)
