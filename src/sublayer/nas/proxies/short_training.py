"""Short training: the most expensive proxy, and the simplest."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from sublayer.data import Batch
from sublayer.nas.proxies.base import proxy
from sublayer.nas.proxies.loss import loss_of, posed, without_dropout
from sublayer.nn.model import Model
from sublayer.nn.stepping import after_step
from sublayer.training import TrainConfig


@proxy("short_training", needs="batches", higher=False, cite="the loss after a few steps; no paper's own")
def short_training(model: Model, batches: Sequence[Batch]) -> float:
    """The loss on the last batch after one step of AdamW on each of those before it. Trains the model it is given."""
    config = TrainConfig()
    *learned, asked = batches
    optimizer = config.optimizer.build(model.parameters(), config.rate)
    was = model.training
    model.train()
    for step, batch in enumerate(learned, 1):
        loss_of(model, posed(model, batch)).backward()
        weights = [weight for weight in model.parameters() if weight.grad is not None]
        torch.nn.utils.clip_grad_norm_(weights, config.clip or torch.inf)
        optimizer.step()
        after_step(model, step)
        optimizer.zero_grad(set_to_none=True)
    model.train(was)
    with torch.no_grad(), without_dropout(model):
        return float(loss_of(model, posed(model, asked)))
