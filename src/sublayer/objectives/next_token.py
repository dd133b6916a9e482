"""NextToken: language modelling, from left to right."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from sublayer.data import Data
from sublayer.evaluation.scoring import OnBatch, score
from sublayer.nn.config import ConfigError
from sublayer.nn.model import Model
from sublayer.objectives.base import Objective, check_speaks
from sublayer.objectives.meter import Meter


class NextToken(Objective):
    """−log p(token | tokens before it)."""

    class Config(Objective.Config, tag="next_token"):
        scores_every_token: ClassVar[bool] = True

        def check_model(self, model: Model.Config) -> None:
            super().check_model(model)
            if not model.writes:
                raise ConfigError(
                    f"train.objective=next_token: {model.tag} sees the token it would have to predict; train a "
                    "decoder, or use train.objective=masked_tokens"
                )
            check_speaks(model)

    def meter(self) -> Meter:
        return TextMeter()

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
        stride: int | None = None,
        memory: int | None = None,
        **options: Any,
    ) -> dict[str, Any]:
        """Of a text as `sublayer.evaluation.score` has it, exact counts of bytes, characters and words included."""
        if data.longest(split) is not None:  # rows of their own, which are read whole
            own = {"carry": carry, "batch": batch, "limit": limit, "on_batch": on_batch}
            return super().score(data, split, length=length, **own, stride=stride, memory=memory, **options)
        tokens, how = getattr(data, split), {"carry": carry, "batch": batch, "stride": stride, "memory": memory}
        return score(
            self.model,
            tokens,
            length=length,
            limit=limit,
            tokenizer=data.tokenizer,
            on_batch=on_batch,
            **how,
            **options,
        ).dump()


class TextMeter(Meter):
    def figures(self, sums: Mapping[str, float], data: Data, split: str) -> dict[str, float]:
        loss = sums["nats"] / sums["targets"]
        return {"loss": loss, **data.figures(loss, split)}
