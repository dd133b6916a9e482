"""Which objective a model is trained by: the one that is named, or what it learns from that kind of data."""

from __future__ import annotations

from sublayer.data import Data
from sublayer.nn.config import ConfigError
from sublayer.nn.model import Model
from sublayer.objectives.base import Objective

TEXT = "tokens"


def choose(
    model: Model.Config, data: Data.Config | None = None, named: Objective.Config | None = None
) -> Objective.Config:
    """data: None stands for a plain text. named: None takes what the model learns from that kind of data."""
    kind = TEXT if data is None else data.gives
    what = "a text" if data is None else data.called
    if named is not None:
        if named.needs != kind:
            raise ConfigError(
                f"train.objective={named.tag}: learns from {named.needs}, and {what} gives {kind}; use "
                f"{_those(kind) or 'other data'}, or leave train.objective out"
            )
        if model.needs_source and not named.gives_source:
            raise ConfigError(
                f"{model.tag}: starts from a source sequence, and {named.tag} gives it none; train a decoder or an "
                "encoder, or use an objective for pairs"
            )
        return named
    if kind not in model.learns:
        able = [tag for tag, one in Model.Config.registry.items() if kind in one.learns]  # pyright: ignore[reportAttributeAccessIssue]
        raise ConfigError(
            f"{model.tag}: has no objective for {what}, which gives {kind}; train a model that has one "
            f"({', '.join(able) or 'none here'}), or name one by train.objective"
        )
    return Objective.Config.kind_of(model.learns[kind])()  # pyright: ignore[reportReturnType]


def _those(kind: str) -> str:
    """Objectives that learn from a kind of data."""
    found = [tag for tag, one in Objective.Config.registry.items() if one.needs == kind]  # pyright: ignore[reportAttributeAccessIssue]
    return " or ".join(found)
