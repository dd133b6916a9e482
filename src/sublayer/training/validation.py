"""The figures on valid while a model is trained: by the same objective, in eval mode, each process on its rows."""

from __future__ import annotations

import torch

from sublayer.data import Data
from sublayer.training.config import TrainConfig
from sublayer.training.distribution import World
from sublayer.training.trainee import Trainee


def validate(trainee: Trainee, config: TrainConfig, data: Data, world: World) -> dict[str, float]:
    """What the objective measures, `loss` among it; the same in every process."""
    carry, rows = trainee.batches.carries, {"rank": world.rank, "world": world.size}
    batches = data.sweep("valid", config.batch, config.length, carry=carry, limit=config.eval_tokens, **rows)
    meter = trainee.objective.meter()
    trainee.wrapped.eval()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(config.seed)  # what an objective hides: the same each time
        meter.read(trainee.wrapped, batches, world.device, carry)
    sums = {name: world.mean(torch.tensor(value, dtype=torch.float64)) for name, value in meter.sums.items()}
    return meter.figures(sums, data, "valid")
