"""The settings of one stage of a training."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field, model_validator

from sublayer.nn.config import Config, Count, Positive

MOST = 2**53
"""Counts up to it are exact as floats; none of use comes near it."""


class StageConfig(Config, tag="stage"):
    """One stage of train.stages. What it does not name is as the run has it."""

    until: Annotated[float, Field(gt=0, le=MOST)]
    """Where it ends: below 1 a share of train.steps, from 1 on a step."""
    length: Annotated[Count, Field(le=2**24)] | None = None
    batch: Annotated[Count, Field(le=2**20)] | None = None
    lr: Positive | None = None
    model: dict[str, Any] = {}
    """Keys of the model with the values they have in this stage: sizes of patterns, and what else has no weights."""

    @model_validator(mode="after")
    def _whole(self) -> StageConfig:
        if self.until > 1 and self.until != int(self.until):
            raise ValueError(
                f"until={self.until:g}: neither a share of the steps, below 1, nor a whole number of steps; use "
                f"{int(self.until)}"
            )
        return self

    @property
    def settings(self) -> dict[str, Any]:
        """Fields of the training that it changes."""
        given = {"length": self.length, "batch": self.batch, "lr": self.lr}
        return {name: value for name, value in given.items() if value is not None}
