"""Stages: a training that grows, each stage with pattern sizes, lengths and rates of its own (Beltagy et al. 2020).

All stages are worked out before training begins, and each is checked like a training by itself. Weights go on from
stage to stage, since patterns have none. A border is a resumption: the loop writes a checkpoint, and the next stage is
read from it, so that a training that was killed there continues with the same bits.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from sublayer.nn.config import ConfigError
from sublayer.nn.model import Model
from sublayer.papers.chosen_paths import without_weights
from sublayer.training.config import TrainConfig
from sublayer.training.stage_config import StageConfig

Shapes = dict[str, tuple[int, ...]]


@dataclass(frozen=True)
class Stage:
    number: int
    """From 1."""
    count: int
    """Number of stages, the last with the run's own settings among them."""
    begin: int
    """Steps done before it."""
    end: int | None
    """Steps done after it; None: to the end of the budget."""
    model: Model.Config
    config: TrainConfig
    """The settings as they are in this stage."""
    title: str = ""
    """Where it ends and what it changes, in words."""
    warmup: int = 0
    """Steps in which the rate rises again from 0; the first stage has the run's own warm-up."""

    def over(self, step: int) -> bool:
        return self.end is not None and step >= self.end

    def warm(self, step: int) -> float:
        """The share of the rate at a step, counted from 0."""
        return min(1.0, (step - self.begin + 1) / self.warmup) if self.warmup else 1.0

    @property
    def shown(self) -> int | None:
        """Its number, where there is more than one."""
        return self.number if self.count > 1 else None


def plan(model: Model.Config, config: TrainConfig) -> tuple[Stage, ...]:
    """The stages in order; without train.stages one, the training itself. The last has the run's own settings."""
    borders, count = [0, *config.borders], len(config.stages) + 1
    own = config.but(stages=()) if config.stages else config
    found = []
    for n, stage in enumerate(config.stages):
        begin, end = borders[n : n + 2]
        with _named(n):
            changed = model.override(stage.model, "model") if stage.model else model
            settings, title = own.but(stage.settings), _title(stage, end)
        found.append(Stage(n + 1, count, begin, end, changed, settings, title, _rise(own, begin, end)))
    rise = _rise(own, borders[-1], config.steps)
    return (*found, Stage(count, count, borders[-1], None, model, own, "the run's own settings", rise))


def stage_at(stages: tuple[Stage, ...], step: int) -> Stage:
    """The stage of the next step, after `step` steps."""
    return next(stage for stage in stages if not stage.over(step))


def resolve(model: Model.Config, config: TrainConfig) -> TrainConfig:
    """The settings with borders in steps, which do not move when a longer budget is given later.

    Raises ConfigError where a stage would need other weights.
    """
    if not config.stages:
        return config
    weights = _shapes(model)
    for n, stage in enumerate(plan(model, config)[:-1]):
        with _named(n):
            _same_weights(weights, _shapes(stage.model))
    return config.but(
        stages=[stage.but(until=border) for stage, border in zip(config.stages, config.borders, strict=True)]
    )


@contextmanager
def naming(stage: Stage) -> Iterator[None]:
    """Errors name the stage that they belong to; those of the last are about the run's own settings."""
    if stage.number == stage.count:
        yield
        return
    with _named(stage.number - 1):
        yield


@contextmanager
def _named(n: int) -> Iterator[None]:
    try:
        yield
    except ValueError as error:
        raise ConfigError(f"train.stages.{n}: {error}") from None


def _rise(config: TrainConfig, begin: int, end: int | None) -> int:
    """A tenth of the stage's steps, at most train.warmup."""
    return 0 if not begin or end is None else min(config.warmup, (end - begin) // 10)


def _title(stage: StageConfig, end: int) -> str:
    changes = {**stage.settings, **stage.model}.items()
    words = [f"{name} {value:g}" if isinstance(value, float) else f"{name} {value}" for name, value in changes]
    return ", ".join([f"to step {end:,}", *words])


def _shapes(model: Model.Config) -> Shapes:
    return {name: tuple(tensor.shape) for name, tensor in without_weights(model).state_dict().items()}


def _same_weights(there: Shapes, here: Shapes) -> None:
    for name in there | here:
        if there.get(name) != here.get(name):
            raise ConfigError(
                f"model: {name} would have shape {_words(here.get(name))}, and {_words(there.get(name))} in the run's "
                "own model; weights go on from stage to stage, so change only what has none, such as sizes of patterns"
            )


def _words(shape: Any) -> str:
    return "none" if shape is None else str(shape)
