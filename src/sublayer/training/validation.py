"""The figures on valid while a model is trained: by the same objective, in eval mode, each process on its rows.

At the end, and where train.eval_tokens is given, all batches that were asked for are read. On the way, by default, only
the first few of them are: a sample that is always the same, and so small that evaluating takes at most a fifth of the
work. The size follows from the config by counting passes, not from a clock, so that a resumed run reads the same.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain, islice

import torch

from sublayer.data import Data
from sublayer.objectives.meter import Meter
from sublayer.runs import Progress
from sublayer.runs.metrics import ValidLine
from sublayer.training.config import TrainConfig
from sublayer.training.distribution import World
from sublayer.training.trainee import Trainee

STEP = 3
"""Forward passes that a step of training costs: one, and a backward pass of twice the work."""
SHARE = 5
"""Evaluations on the way take at most one part in so many of the work."""


@dataclass(frozen=True)
class Validation:
    figures: dict[str, float]
    """What the objective measures, `loss` among it."""
    compared: float
    """The loss on the sample, the same at every evaluation: by it the best is chosen, at the end as on the way."""
    batches: int | None
    """Batches that were read, where there are more; None: all."""

    def line(self, progress: Progress, stage: int | None = None) -> ValidLine:
        return ValidLine(progress.step, progress.tokens, self.figures, self.batches, stage)


def validate(trainee: Trainee, config: TrainConfig, data: Data, world: World, *, whole: bool) -> Validation:
    """The same in every process. whole: read beyond the sample, to the end."""
    carry, rows = trainee.batches.carries, {"rank": world.rank, "world": world.size}
    batches = iter(data.sweep("valid", config.batch, config.length, carry=carry, limit=config.final_tokens, **rows))
    meter, size = trainee.objective.meter(), sample_size(trainee, config, data)
    trainee.wrapped.eval()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(config.seed)  # what an objective hides: the same each time
        state = meter.read(trainee.wrapped, islice(batches, size), world.device, carry)
        sample = _figures(meter, data, world)
        more = next(batches, None)
        if sample and (more is None or not whole):
            return Validation(sample, sample["loss"], None if more is None else size)
        meter.read(trainee.wrapped, chain([] if more is None else [more], batches), world.device, carry, state)
    figures = _figures(meter, data, world)
    return Validation(figures, sample.get("loss", figures["loss"]), None)


def sample_size(trainee: Trainee, config: TrainConfig, data: Data) -> int | None:
    """Batches of the sample; None: all. S of them beside T steps are a share S / (S + STEP·T) ≤ 1 / SHARE of the work.

    At least one batch. Rows that grow in training count as they are at first, and rows of valid as the longest.
    """
    if not config.samples_valid:
        return None
    longest = trainee.batches.longest
    row = longest if trainee.batches.carries else data.longest("valid") or longest
    steps = config.evaluates_every * config.accumulate
    return max(1, STEP * steps * config.length_at(0, longest) // ((SHARE - 1) * row))


def _figures(meter: Meter, data: Data, world: World) -> dict[str, float]:
    """Of all processes; none where no target was read, as in a sample that asks for no answer."""
    sums = {name: world.mean(torch.tensor(value, dtype=torch.float64)) for name, value in meter.sums.items()}
    try:
        return meter.figures(sums, data, "valid")
    except ZeroDivisionError:
        return {}
