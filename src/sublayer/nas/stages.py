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

    def settle(self) -> bool:
        """Improve what figures are made from, after the last candidate; whether those given before may differ now."""
        return False

    @property
    def disturbed(self) -> str | None:
        """What disturbed the readings that figures are made from; None if nothing did."""
        return None

    def allowance(self, budget: Model.Config) -> Mapping[str, float]:
        """Limits such that candidates take no more than this model does."""
        return {}

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


@dataclass
class Evaluator:
    """All stages in turn, and the limits between them."""

    stages: Sequence[Stage]
    goals: tuple[SearchGoal, ...]
    asked: Mapping[str, float]
    """Limits by figure."""
    budget: Model.Config | None = None
    """A model whose latency is a limit, too."""

    def __post_init__(self) -> None:
        self.limits = self._find_limits()

    def evaluate(self, number: int, candidate: Candidate) -> Trial:
        figures: Figures = {}
        excess: Figures = {}
        for stage in self.stages:
            figures |= stage.figures(candidate.config)
            excess = self._excess(figures)
            if any(share > 0 for share in excess.values()):
                return Trial(number, candidate, figures, excess)
        self._check(figures)
        # A figure without a finite value cannot be compared; it counts as twice its limit.
        excess |= {goal.name: 1.0 for goal in self.goals if not math.isfinite(figures[goal.name])}
        return Trial(number, candidate, {name: f for name, f in figures.items() if math.isfinite(f)}, excess)

    def look_ahead(self, configs: Sequence[Model.Config]) -> None:
        for stage in self.stages if configs else ():
            stage.look_ahead(configs)

    def settled(self, trials: Sequence[Trial]) -> list[Trial]:
        """The trials with the figures that stages give now that they have measured again what was disturbed."""
        settled = [stage for stage in self.stages if stage.settle()]
        if not settled:
            return list(trials)
        self.limits = self._find_limits()
        return [self._revised(trial, settled) for trial in trials]

    @property
    def disturbed(self) -> str | None:
        return next((why for stage in self.stages if (why := stage.disturbed)), None)

    def _revised(self, trial: Trial, stages: Sequence[Stage]) -> Trial:
        """A trial that was cut off at an earlier stage has no figures of these, and stays as it is."""
        known = trial.figures
        now = {name: value for stage in stages for name, value in stage.figures(trial.candidate.config).items()}
        if not now.keys() <= known.keys():
            return trial
        figures = {**known, **now}
        excess = {name: share for name, share in trial.excess.items() if name not in figures} | self._excess(figures)
        within = not any(share > 0 for share in excess.values())
        if within and any(goal.name not in figures for goal in self.goals):  # later stages have not seen it
            return self.evaluate(trial.number, trial.candidate)
        return Trial(trial.number, trial.candidate, figures, excess)

    def _excess(self, figures: Figures) -> Figures:
        return {name: figures[name] / most - 1 for name, most in self.limits.items() if name in figures}

    def _find_limits(self) -> dict[str, float]:
        """The smallest of those asked for and those of the budget."""
        limits = dict(self.asked)
        allowances = [] if self.budget is None else [stage.allowance(self.budget) for stage in self.stages]
        for allowance in allowances:
            limits |= {name: min(most, limits.get(name, most)) for name, most in allowance.items()}
        return limits

    def _check(self, figures: Figures) -> None:
        for name in (*(goal.name for goal in self.goals), *self.limits):
            if name not in figures:
                raise ValueError(f"{name}: there is no such figure; there are {', '.join(figures)}")
