"""The front of a search: which trials are on it, how it grew, and its models measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from sublayer.measurement.reading import NOISY
from sublayer.nas import pareto
from sublayer.nas.goals import source
from sublayer.nas.records import (
    BudgetModel,
    FrontModel,
    MeasuredFigures,
    PredictorErrors,
    SearchGoal,
    SearchRequest,
    SearchResult,
)
from sublayer.nas.reporters import SearchProgress
from sublayer.nas.trial import Trial, table

Points = NDArray[np.float64]
T = TypeVar("T")

MARGIN = 0.1
"""How far the reference lies beyond the worst values seen, as a share of their range."""


def nondominated(trials: Sequence[Trial], goals: Sequence[SearchGoal]) -> list[Trial]:
    """The trials within the limits that no other dominates, the fastest first."""
    within = [trial for trial in trials if trial.feasible]
    best = [within[at] for at in pareto.front(table(within, goals))]
    return sorted(best, key=lambda trial: [*_order(trial, goals), trial.number])


def _order(trial: Trial, goals: Sequence[SearchGoal]) -> list[float]:
    """By latency, where it is a figure; then by the objectives in turn."""
    latency = [trial.figures["latency"]] if "latency" in trial.figures else []
    return latency + table([trial], goals)[0].tolist()


def box(points: Points) -> tuple[Points, Points]:
    """The best of each coordinate, and a reference a little beyond the worst."""
    best, worst = points.min(0), points.max(0)
    return best, worst + MARGIN * np.where(worst > best, worst - best, 1.0)


def growth(progress: SearchProgress, ideal: Points, reference: Points) -> list[float]:
    """The hypervolume after each generation, as a share of the box."""
    volumes, front, before = [], np.empty((0, len(progress.goals))), 0
    for after in progress.generations:
        new = [trial for trial in progress.trials[before:after] if trial.feasible]
        front = np.concatenate([front, table(new, progress.goals)])
        front = front[pareto.front(front)]
        volumes.append(pareto.share(front, ideal, reference))
        before = after
    return volumes


def find_front(request: SearchRequest, progress: SearchProgress, limits: Mapping[str, float]) -> SearchResult:
    """The result of a search before any model is measured."""
    goals = progress.goals
    within = [trial for trial in progress.trials if trial.feasible]
    ideal, reference = box(table(within, goals))
    volumes = growth(progress, ideal, reference)
    signs = np.array([goal.sign for goal in goals])
    return SearchResult(
        objectives=goals,
        limits=dict(limits),
        trials=len(progress.trials),
        feasible=len(within),
        hypervolume=volumes[-1],
        hypervolumes=tuple(volumes),
        generations=tuple(progress.generations),
        ideal=tuple((ideal * signs).tolist()),
        reference=tuple((reference * signs).tolist()),
        device=request.device,
        setting=request.setting,
        text=request.text,
        budget=None if request.budget is None else BudgetModel(config=request.budget),
        sources={name: source(name) for trial in within for name in trial.figures},
        front=tuple(front_model(trial) for trial in nondominated(within, goals)),
    )


def front_model(trial: Trial) -> FrontModel:
    candidate = trial.candidate
    return FrontModel(
        number=trial.number, config=candidate.config.dump(), layout=candidate.layout, values=trial.figures
    )


def carry_over(result: SearchResult, before: SearchResult | None) -> SearchResult:
    """The result with the measurements and runs that an earlier front.json has for the same models.

    All else follows from the trials; these two do not.
    """
    known = {one.number: one for one in before.front} if before else {}
    for one in result.front:
        earlier = known.get(one.number)
        if earlier is not None and earlier.config == one.config:
            result = result.replace(one.number, measured=earlier.measured, run=earlier.run)
    if before and before.budget and result.budget and before.budget.config == result.budget.config:
        result = result.model_copy(update={"budget": before.budget})
    return judged(result)


def judged(result: SearchResult) -> SearchResult:
    """The result with what follows from its measurements: who is within the limits, and the errors of predictions."""
    if result.budget and is_measured(result.budget):
        assert result.budget.measured is not None
        result = result.model_copy(update={"limits": {**result.limits, "latency": result.budget.measured.latency}})
    for one in result.front:
        result = result.replace(one.number, within=not exceeded(one, result.limits) if is_measured(one) else None)
    return with_errors(result)


def exceeded(model: FrontModel, limits: Mapping[str, float]) -> list[str]:
    """The limits that a model's measurement exceeds."""
    return [name for name, most in limits.items() if (model.measured_value(name) or 0) > most]


def with_errors(result: SearchResult) -> SearchResult:
    """The result with the median relative errors of its predictions, on the models that were measured."""
    pairs = [
        (one.values, one.measured)
        for one in result.front
        if one.measured is not None and is_measured(one) and "latency" in one.values
    ]
    if not pairs:
        return result.model_copy(update={"predictor": None})
    errors = {name: _error(pairs, name) for name in ("latency", "memory") if name in pairs[0][0]}
    return result.model_copy(update={"predictor": PredictorErrors(models=len(pairs), **errors)})


def _error(pairs: Sequence[tuple[Mapping[str, float], MeasuredFigures]], name: str) -> float | None:
    """The median of |predicted/measured − 1|."""
    known = [(values[name], real) for values, measured in pairs if (real := measured.value(name))]
    return float(np.median([abs(predicted / real - 1) for predicted, real in known])) if known else None


def is_measured(model: FrontModel | BudgetModel) -> bool:
    """Whether it was measured, undisturbed and not in too much noise."""
    found = model.measured
    if found is None or found.disturbed or found.latency is None or found.low is None or found.high is None:
        return False
    return (found.high - found.low) / 2 <= NOISY * found.latency


def evenly(models: Sequence[T], count: int) -> list[T]:
    """`count` of the front, from one end to the other."""
    indices = np.linspace(0, len(models) - 1, min(count, len(models))).round().astype(int)
    return [models[at] for at in indices]
