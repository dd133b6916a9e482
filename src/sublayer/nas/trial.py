"""Trial: a candidate with its figures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from sublayer.nas.records import SearchGoal
from sublayer.nas.space import Candidate

Figures: TypeAlias = "dict[str, float]"
"""Figure → value, in seconds, bytes or units."""


@dataclass(frozen=True)
class Trial:
    """A candidate above a limit is not evaluated further, so its later figures are missing."""

    number: int
    candidate: Candidate
    figures: Figures
    excess: Figures
    """How far each limited figure is above its limit, as a share of the limit; 0 or less is within it."""

    @property
    def feasible(self) -> bool:
        return all(share <= 0 for share in self.excess.values())

    @property
    def violation(self) -> float:
        return sum(max(0.0, share) for share in self.excess.values())


def table(trials: Sequence[Trial], goals: Sequence[SearchGoal]) -> NDArray[np.float64]:
    """One row per trial, one column per objective, lower is better."""
    rows = [[goal.sign * trial.figures[goal.name] for goal in goals] for trial in trials]
    return np.array(rows, dtype=float).reshape(len(trials), len(goals))
