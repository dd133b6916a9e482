"""Search methods side by side: the same space, the same number of trials, several seeds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from sublayer.nas.explore import explore
from sublayer.nas.front import box, growth
from sublayer.nas.goals import read_goals, read_limits
from sublayer.nas.methods import METHODS
from sublayer.nas.records import SearchGoal
from sublayer.nas.reporters import SearchProgress
from sublayer.nas.search import DEFAULT, begin, count_trials
from sublayer.nas.space import Space
from sublayer.nas.stages import CountStage, Evaluator, Stage
from sublayer.nas.trial import table


def compare_methods(
    space: Space,
    stages: Sequence[Stage],
    *,
    methods: Sequence[str] = tuple(METHODS),
    seeds: Sequence[int] = (0, 1, 2, 3, 4),
    objectives: str | Sequence[str | SearchGoal] = DEFAULT,
    limits: Mapping[str, str | float | None] | None = None,
    population: int = 100,
    iterations: int = 30,
) -> dict[str, dict[int, list[float]]]:
    """Method → seed → hypervolume after each generation, as a share of one box around all trials of all methods."""
    goals, most = read_goals(objectives), read_limits(limits or {})
    evaluator, trials = Evaluator([CountStage(), *stages], goals, most), count_trials(population, iterations)
    done: dict[tuple[str, int], SearchProgress] = {}
    for method in methods:
        for seed in seeds:
            done[method, seed] = explore(begin(method, space, goals, most, seed, population), evaluator, trials)
    points = [table([one for one in progress.trials if one.feasible], goals) for progress in done.values()]
    ideal, reference = box(np.concatenate(points))
    volumes: dict[str, dict[int, list[float]]] = {method: {} for method in methods}
    for (method, seed), progress in done.items():
        volumes[method][seed] = growth(progress, ideal, reference)
    return volumes
