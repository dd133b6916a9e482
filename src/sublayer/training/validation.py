"""The loss on valid while a model is trained: by the same objective, in eval mode, each process on its rows."""

from __future__ import annotations

import math

import torch

from sublayer.data import Dataset, Lanes, Sweep
from sublayer.training.config import TrainConfig
from sublayer.training.distribution import World
from sublayer.training.objective import NextToken
from sublayer.training.trainee import Trainee


@torch.no_grad()
def validate(trainee: Trainee, config: TrainConfig, data: Dataset, world: World) -> dict[str, float]:
    """Mean loss a token and what follows from it; the same in every process."""
    ids = data.valid.ids if config.eval_tokens is None else data.valid.ids[: config.eval_tokens + 1]
    sweep = Sweep(ids, config.batch, config.length, rank=world.rank, world=world.size)
    state, carry = None, isinstance(trainee.batches, Lanes)
    nats, weight = torch.zeros(2, dtype=torch.float64)
    trainee.objective.eval()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(config.seed)  # an encoder's tokens: the same are hidden each time
        for batch in sweep:
            counted = float(batch.inputs_BL.numel() if batch.weights_BL is None else batch.weights_BL.sum())
            _, state, named = trainee.objective(batch.to(world.device), state if carry else None)
            nats += named["loss"].double().cpu() * counted if counted else 0.0
            weight += counted
    loss = world.mean(nats) / world.mean(weight)
    if not isinstance(trainee.made, NextToken):
        return {"loss": loss}
    bytes_a_token = data.valid.bytes / max(1, len(data.valid))
    return {"loss": loss, "perplexity": math.exp(min(loss, 700.0)), "bits_per_byte": loss / math.log(2) / bytes_a_token}
