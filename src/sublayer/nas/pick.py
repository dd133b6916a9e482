"""Pick one model of a front: the best by the first objective, the fastest, or the knee.

- best: the best value of the first objective.
- fastest: the lowest latency.
- knee: where giving up more of one objective begins to gain little of the other. Every objective is scaled to the range
  that the front has. With two objectives, the knee is the point farthest from the line between the front's ends, on the
  better side of it; with three, the point nearest to the ideal one, which has the best value of each.

best and fastest compare measured values where a model was measured, predicted ones elsewhere. The knee compares
predicted values alone, since a front that mixes both has bends of its own. A model whose measurement exceeds a limit is
never picked; a disturbed measurement counts as none.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from sublayer.nas.front import exceeded
from sublayer.nas.records import FrontModel, SearchResult


def pick(result: SearchResult, by: str) -> FrontModel:
    """`pick(result, "knee")`: one of best, fastest and knee."""
    if by not in PICKS:
        raise ValueError(f"pick={by}: expected one of {', '.join(PICKS)}")
    within = [one for one in result.front if is_within(one, result.limits)]
    if not within:
        raise ValueError(
            f"pick={by}: none of the {len(result.front)} models of the front is within the limits when measured; raise "
            "the limits, or name a trial by its number"
        )
    return PICKS[by](result, within)


def is_within(model: FrontModel, limits: Mapping[str, float]) -> bool:
    """Whether no measurement of it exceeds a limit. Searches of earlier versions did not note it."""
    if model.within is not None:
        return model.within
    return all(name == "latency" and _disturbed(model) for name in exceeded(model, limits))


def _disturbed(model: FrontModel) -> bool:
    """Whether its latency was measured on a busy machine, which proves nothing."""
    return model.measured is not None and model.measured.disturbed is not None


def _best(result: SearchResult, models: Sequence[FrontModel]) -> FrontModel:
    first = result.objectives[0]
    return min(models, key=lambda one: (first.sign * _value(one, first.name), one.number))


def _fastest(result: SearchResult, models: Sequence[FrontModel]) -> FrontModel:
    if any("latency" not in one.values for one in models):
        raise ValueError(
            "pick=fastest: the search did not predict latency; pick best or knee, or search with latency among its "
            "objectives"
        )
    return min(models, key=lambda one: (_value(one, "latency"), one.number))


def _knee(result: SearchResult, models: Sequence[FrontModel]) -> FrontModel:
    rows = [[goal.sign * one.values[goal.name] for goal in result.objectives] for one in models]
    return models[knee(np.array(rows, dtype=float))]


def knee(points: NDArray[np.float64]) -> int:
    """The index of the knee of a front, lower is better in every coordinate; the first of several."""
    low, high = points.min(0), points.max(0)
    scaled = (points - low) / np.where(high > low, high - low, 1.0)
    if points.shape[1] == 2:
        # The ends of a front in two coordinates are (0, 1) and (1, 0): the sum is less the farther below their line.
        return int(scaled.sum(1).argmin())
    return int(np.linalg.norm(scaled, axis=1).argmin())


def _value(model: FrontModel, name: str) -> float:
    """Measured where it was measured undisturbed."""
    measured = None if name == "latency" and _disturbed(model) else model.measured_value(name)
    return model.values[name] if measured is None else measured


PICKS: dict[str, Callable[[SearchResult, Sequence[FrontModel]], FrontModel]] = {
    "best": _best,
    "fastest": _fastest,
    "knee": _knee,
}
"""Name → how it is picked."""
