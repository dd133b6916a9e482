"""Stages: sources of figures for candidates, the cheapest first.

A candidate goes from stage to stage until one of its figures is above a limit; dearer stages then never see it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sublayer.nas.records import SearchGoal
from sublayer.nas.space import Candidate, Space
from sublayer.nas.trial import Figures, Trial
from sublayer.nn.model import Model

FLOAT = 4
"""Bytes of a weight: models are measured in fp32."""


class Stage:
    """Abstract."""

    def prepare(self, space: Space) -> None:
        """Do what is needed once, before the first candidate."""

    def look_ahead(self, configs: Sequence[Model.Config]) -> None:
        """Do for a whole generation what is cheaper to do at once; `figures` of each follows."""

    def figures(self, config: Model.Config) -> Mapping[str, float]:
        raise NotImplementedError

    def close(self) -> None:
        """Free what the stage holds."""


class CountStage(Stage):
    """Parameters and FLOPs, counted for `length` new tokens after `memory` remembered ones."""

    def __init__(self, length: int = 64, memory: int | None = None) -> None:
        self.length, self.memory = length, memory

    def figures(self, config: Model.Config) -> Figures:
        cost = config.cost(self.length, self.memory)
        return {"params": cost.params, "decoder_params": cost.decoder_params, "flops": cost.flops.total}


class WeightStage(Stage):
    """Bytes of the weights: the least memory a model can need, so that what is too large is never predicted."""

    def figures(self, config: Model.Config) -> Figures:
        return {"memory": FLOAT * config.cost().params}


@dataclass(frozen=True)
class Evaluator:
    """All stages in turn, and the limits between them."""

    stages: Sequence[Stage]
    goals: tuple[SearchGoal, ...]
    limits: Mapping[str, float]

    def evaluate(self, number: int, candidate: Candidate) -> Trial:
        figures: Figures = {}
        excess: Figures = {}
        for stage in self.stages:
            figures |= stage.figures(candidate.config)
            excess = {name: figures[name] / most - 1 for name, most in self.limits.items() if name in figures}
            if any(share > 0 for share in excess.values()):
                return Trial(number, candidate, figures, excess)
        self._check(figures)
        # A figure without a finite value cannot be compared; it counts as twice its limit.
        excess |= {goal.name: 1.0 for goal in self.goals if not math.isfinite(figures[goal.name])}
        return Trial(number, candidate, {name: f for name, f in figures.items() if math.isfinite(f)}, excess)

    def look_ahead(self, configs: Sequence[Model.Config]) -> None:
        for stage in self.stages if configs else ():
            stage.look_ahead(configs)

    def _check(self, figures: Figures) -> None:
        for name in (*(goal.name for goal in self.goals), *self.limits):
            if name not in figures:
                raise ValueError(f"{name}: there is no such figure; there are {', '.join(figures)}")
