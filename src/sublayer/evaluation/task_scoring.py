"""Scoring of a task: a model reads its episodes and answers."""

from __future__ import annotations

import torch

from sublayer.data import Examples
from sublayer.data.tasks import exam
from sublayer.evaluation.protocol import AT_ONCE, min_limit
from sublayer.evaluation.scoring import OnBatch, reading
from sublayer.evaluation.task_scores import Tally, TaskScore
from sublayer.nn.model import Model


def score_task(
    model: Model,
    examples: Examples,
    *,
    length: int,
    carry: bool | None = None,
    batch: int | None = None,
    limit: int | None = None,
    on_batch: OnBatch | None = None,
) -> TaskScore:
    """How well a model answers: every episode once, a row each; or in segments of `length`, where the model has a
    segment memory and the task is read as one sequence (`carry`).

    limit: the first episodes only, as many as have so many tokens. batch: rows read at once, which changes nothing but
    speed, since every episode begins anew; None: as many as are quick.
    """
    for name, value in (("length", length), ("batch", batch), ("limit", limit)):
        if value is not None and value < 1:
            raise ValueError(f"{name}={value}: expected at least 1; use a larger one")
    examples = examples.beginning(limit)
    carry = bool(model.config.carries if carry is None else carry) and not examples.alone
    check(model, examples, carry)
    rows = batch or max(1, AT_ONCE // (length if carry else examples.longest))
    tally, state, done, total = Tally(), None, 0, int(examples.asked.sum())
    device = next(model.parameters()).device
    with reading(model):
        for found in exam(examples, min(rows, examples.episodes), length, carry=carry):
            here = found.to(device)
            h_BLD, state = model(here.inputs_BL, state if carry and not here.fresh else None, here.valid_BL)
            assert here.weights_BL is not None
            assert here.episode_BL is not None
            targets_BL = here.targets_BL.masked_fill(here.weights_BL == 0, -100)
            nats = float(model.head.nats(h_BLD, targets_BL).sum(dtype=torch.float64))
            tally.add(nats, model.head(h_BLD).argmax(-1) == targets_BL, here.weights_BL, here.episode_BL)
            done += int(here.weights_BL.sum())
            if on_batch:
                on_batch(done, total)
    return tally.score


def check(model: Model, examples: Examples, carry: bool) -> None:
    """Refuse models that do not read from left to right, answers they do not have, and rows beyond their positions."""
    if not model.config.writes or model.config.needs_source:
        raise ValueError(
            f"{model.config.tag}: the questions of a task are answered from left to right, as by a decoder; use a run "
            "of a decoder"
        )
    most = int(examples.answers_N.max())
    if most >= model.head.classes:
        raise ValueError(
            f"{examples.name}: asks for answer {most}, and the head, {model.config.head.tag}, has {model.head.classes} "
            "classes; use the task that the model was trained on"
        )
    limit = min_limit(model.config)
    if limit is not None and not carry and examples.longest > limit:
        raise ValueError(
            f"{examples.name}: has episodes of {examples.longest} tokens, and the model {limit} learned positions; use "
            f"position.limit={examples.longest} when it is trained, or positions without end, such as rotary"
        )
