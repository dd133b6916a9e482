"""Methods side by side: the same space, the same number of trials, several seeds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from sublayer.nas.explore import Progress, explore
from sublayer.nas.methods import METHODS
from sublayer.nas.result import box, growth
from sublayer.nas.search import make, total
from sublayer.nas.space import Space
from sublayer.nas.trial import Judge, Objective, Stage, counted, read_limits, read_objectives, table


def contest(
    space: Space,
    evaluate: Stage | Sequence[Stage],
    *,
    methods: Sequence[str] = tuple(METHODS),
    seeds: Sequence[int] = (0, 1, 2, 3, 4),
    objectives: str | Sequence[str | Objective] = "decoder_params,latency,memory",
    limits: Mapping[str, str | float | None] | None = None,
    population: int = 100,
    iterations: int = 30,
) -> dict[str, dict[int, list[float]]]:
    """Method → seed → hypervolume after each generation, as a share of one box that holds all that anyone found."""
    wanted, most = read_objectives(objectives), read_limits(limits or {})
    stages: list[Any] = [counted(), *([evaluate] if callable(evaluate) else evaluate)]
    judge = Judge(stages, wanted, most)
    held: dict[tuple[str, int], Progress] = {}
    for method in methods:
        for seed in seeds:
            progress = held[method, seed] = Progress(total(population, iterations), wanted)
            explore(make(method, space, wanted, most, seed, population), judge, progress)
    everything = [table([one for one in held_.trials if one.feasible], wanted) for held_ in held.values()]
    ideal, reference = box(np.concatenate(everything))
    found: dict[str, dict[int, list[float]]] = {method: {} for method in methods}
    for (method, seed), progress in held.items():
        found[method][seed] = growth(progress, ideal, reference)
    return found
