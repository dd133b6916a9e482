"""Marking: a model reads the episodes of a task and answers."""

from __future__ import annotations

import torch

from sublayer.data import Examples
from sublayer.data.tasks import exam
from sublayer.evaluation.protocol import AT_ONCE
from sublayer.evaluation.scoring import OnBatch, reading
from sublayer.evaluation.task_scores import Marks, Tally
from sublayer.nn.model import Decoder, Model


def mark(
    model: Model,
    examples: Examples,
    *,
    length: int,
    carry: bool | None = None,
    batch: int | None = None,
    limit: int | None = None,
    on_batch: OnBatch | None = None,
) -> Marks:
    """How well a model answers: every episode once, a row each; or in segments of `length`, where the model has a
    segment memory and the task is read as one sequence (`carry`).

    limit: the first episodes only, as many as have so many tokens. batch: rows read at once, which changes nothing but
    speed, since every episode begins anew; None: as many as are quick.
    """
    for name, value in (("length", length), ("batch", batch), ("limit", limit)):
        if value is not None and value < 1:
            raise ValueError(f"{name}={value}: expected at least 1; use a larger one")
    examples = examples.beginning(limit)
    assert isinstance(model, Decoder)
    carry = bool(model.config.carries if carry is None else carry) and not examples.alone
    check(model, examples, carry)
    rows = batch or max(1, AT_ONCE // (length if carry else examples.longest))
    tally, state, done, total = Tally(examples.episodes), None, 0, int(examples.asked.sum())
    device = next(model.parameters()).device
    with reading(model):
        for found, episode_BL in exam(examples, min(rows, examples.episodes), length, carry=carry):
            here = found.to(device)
            h_BLD, state = model(here.inputs_BL, state if carry and not here.fresh else None, here.valid_BL)
            assert here.weights_BL is not None
            targets_BL = here.targets_BL.masked_fill(here.weights_BL == 0, -100)
            nats = float(model.head.nats(h_BLD, targets_BL).sum(dtype=torch.float64))
            tally.add(nats, model.head(h_BLD).argmax(-1) == targets_BL, here.weights_BL, episode_BL)
            done += int(here.weights_BL.sum())
            if on_batch:
                on_batch(done, total)
    return tally.marks


def check(model: Decoder, examples: Examples, carry: bool) -> None:
    """Refuse answers that the model does not have, and rows longer than its places."""
    most = int(examples.answers_N.max())
    if most >= model.head.classes:
        raise ValueError(
            f"{examples.name}: asks for answer {most}, and the head, {model.config.head.tag}, has {model.head.classes} "
            "classes; use the task that the model was trained on"
        )
    limit = getattr(model.config.stack.position, "limit", None)
    if limit is not None and not carry and examples.longest > limit:
        raise ValueError(
            f"{examples.name}: has episodes of {examples.longest} tokens, and the model {limit} learned positions; use "
            f"position.limit={examples.longest} when it is trained, or positions without end, such as rotary"
        )
