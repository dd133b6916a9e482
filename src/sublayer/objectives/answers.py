"""Answers: the questions of a task, answered while it is read from left to right."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from jaxtyping import Float
from torch import Tensor

from sublayer.data import Batch, Data
from sublayer.evaluation.scoring import OnBatch
from sublayer.evaluation.task_scores import Tally
from sublayer.evaluation.task_scoring import score_task
from sublayer.nn.config import ConfigError
from sublayer.nn.embedding import Head
from sublayer.nn.model import Model
from sublayer.objectives.base import Objective, head_of
from sublayer.objectives.meter import Meter


class Answers(Objective):
    """−log p(answer | tokens read so far), at the tokens that ask for one. In eval mode, also which are `right`."""

    class Config(Objective.Config, tag="answers"):
        needs: ClassVar[str] = "answers"

        def check_model(self, model: Model.Config) -> None:
            super().check_model(model)
            if not model.writes:
                raise ConfigError(
                    f"train.objective=answers: answers follow what was read so far, and {model.tag} sees all of it at "
                    "once; train a decoder, such as gpt2"
                )

        def check(self, model: Model.Config, data: Data) -> None:
            """The head must have the task's answers, and no more of its own."""
            super().check(model, data)
            head = head_of(model)
            if data.classes is None and not head.speaks:
                raise ConfigError(
                    f"head={head.tag}: the answers of {data.title} are what it reads; use a head that predicts tokens, "
                    "such as head=tied"
                )
            if data.classes is not None and labels(head) != data.classes:
                raise ConfigError(
                    f"head={head.tag}: {data.title} has {data.classes} answers, which are not what it reads; leave "
                    f"head and head.classes out, or use head=label head.classes={data.classes}"
                )

    def loss(self, h_BLD: Float[Tensor, "B L D"], batch: Batch) -> Float[Tensor, ""]:
        # A mean over no answer is not a number; a sum times 0 keeps every weight in the graph, as DDP needs it.
        return 0.0 * h_BLD.sum() if not batch.share else batch.share * super().loss(h_BLD, batch)

    def observe(self, h_BLD: Float[Tensor, "B L D"], batch: Batch) -> dict[str, Tensor]:
        return {"right": self.model.head(h_BLD).argmax(-1) == batch.targets_BL}

    def meter(self) -> Meter:
        return TaskMeter()

    def score(
        self,
        data: Data,
        split: str,
        *,
        length: int,
        carry: bool | None = None,
        batch: int | None = None,
        limit: int | None = None,
        on_batch: OnBatch | None = None,
        **options: Any,
    ) -> dict[str, Any]:
        """As `sublayer.evaluation.score_task` has it."""
        for name, value in options.items():
            if value is not None:
                raise ValueError(f"{name}={value}: {data.title} is a task, with questions of its own; leave it out")
        how = {"carry": carry, "batch": batch, "limit": limit, "on_batch": on_batch}
        return score_task(self.model, getattr(data, split), length=length, **how).dump()


class TaskMeter(Meter):
    """Mean loss an answer, the share of right ones, and of episodes without a wrong one."""

    def __init__(self) -> None:
        self.tally = Tally()

    def add(self, batch: Batch, named: Mapping[str, Tensor]) -> None:
        assert batch.weights_BL is not None
        assert batch.episode_BL is not None
        if counted := float(batch.weights_BL.sum()):
            self.tally.add(float(named["loss"]) * counted, named["right"], batch.weights_BL, batch.episode_BL)

    @property
    def sums(self) -> dict[str, float]:
        return self.tally.score.counts

    def figures(self, sums: Mapping[str, float], data: Data, split: str) -> dict[str, float]:
        return {
            "loss": sums["nats"] / sums["answers"],
            "accuracy": sums["right"] / sums["answers"],
            "sequence_accuracy": sums["whole"] / sums["episodes"],
        }


def labels(head: Head.Config) -> int | None:
    """Classes of a head that labels each token with something that is not a token; None for any other head."""
    return None if head.speaks or head.pools else getattr(head, "classes", None)
