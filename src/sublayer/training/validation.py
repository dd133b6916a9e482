"""The loss on valid while a model is trained, and how many answers of a task are right: by the same objective, in eval
mode, each process on its rows."""

from __future__ import annotations

import math

import torch

from sublayer.data import Data, Dataset, Sweep, Task
from sublayer.data.tasks import exam
from sublayer.evaluation.task_scores import Tally
from sublayer.training.config import TrainConfig
from sublayer.training.distribution import World
from sublayer.training.objective import NextToken
from sublayer.training.trainee import Trainee


@torch.no_grad()
def validate(trainee: Trainee, config: TrainConfig, data: Data, world: World) -> dict[str, float]:
    """Mean loss a token and what follows from it; the same in every process."""
    if isinstance(data, Task):
        return examine(trainee, config, data, world)
    assert isinstance(data, Dataset)
    ids = data.valid.ids if config.eval_tokens is None else data.valid.ids[: config.eval_tokens + 1]
    sweep = Sweep(ids, config.batch, config.length, rank=world.rank, world=world.size)
    state, carry = None, trainee.batches.carries
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


def examine(trainee: Trainee, config: TrainConfig, data: Task, world: World) -> dict[str, float]:
    """Mean loss an answer, the share of right ones, and of episodes without a wrong one."""
    examples, carry = data.valid.beginning(config.eval_tokens), trainee.batches.carries
    tally, state = Tally(examples.episodes), None
    trainee.objective.eval()
    own = {"carry": carry, "rank": world.rank, "world": world.size}
    for batch, episode_BL in exam(examples, config.batch, config.length, **own):
        _, state, named = trainee.objective(batch.to(world.device), state if carry and not batch.fresh else None)
        assert batch.weights_BL is not None
        if counted := float(batch.weights_BL.sum()):
            tally.add(float(named["loss"]) * counted, named["right"], batch.weights_BL, episode_BL)
    marks = tally.marks
    told = (marks.nats, marks.answers, marks.right, marks.episodes, marks.whole)
    nats, answers, right, episodes, whole = (world.mean(torch.tensor(figure, dtype=torch.float64)) for figure in told)
    return {"loss": nats / answers, "accuracy": right / answers, "sequence_accuracy": whole / episodes}
