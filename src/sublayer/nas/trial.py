"""What is wanted of candidates, and what came of each: objectives, limits, trials."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from sublayer.nas import units
from sublayer.nas.space import Candidate
from sublayer.nn.model import Model

Figures: TypeAlias = "dict[str, float]"
Stage: TypeAlias = "Callable[[Model.Config], Mapping[str, float]]"

UNITS = {"latency": "s", "memory": "B"}
COUNTED = ("params", "decoder_params", "flops")
"""Figures that a config tells by itself."""
GREATER = ("decoder_params",)
"""Figures that are better the greater they are, unless it is said otherwise."""


@dataclass(frozen=True)
class Objective:
    name: str
    direction: Literal["minimize", "maximize"] = "minimize"

    @classmethod
    def parse(cls, text: str) -> Objective:
        """`latency`, `decoder_params`; `synflow:max` where it has to be said."""
        name, _, way = text.strip().partition(":")
        ways: dict[str, Any] = {"min": "minimize", "max": "maximize", "": None}
        if way not in ways or not name:
            raise ValueError(f"objective {text!r}: expected a figure, such as latency, with :min or :max if need be")
        return cls(name, ways[way] or ("maximize" if _greater(name) else "minimize"))

    @property
    def sign(self) -> int:
        """By which a value is multiplied so that less is better."""
        return -1 if self.direction == "maximize" else 1

    def dump(self) -> dict[str, str]:
        return {"name": self.name, "direction": self.direction, "unit": UNITS.get(self.name, "")}


def _greater(name: str) -> bool:
    """Whether a figure is better the greater it is; proxies say so themselves."""
    if name in (*COUNTED, *UNITS):
        return name in GREATER
    from sublayer.nas import proxies

    return name in proxies.names() and proxies.find(name).higher


def read_objectives(given: str | Sequence[str | Objective]) -> tuple[Objective, ...]:
    """Two or three of them: `decoder_params,latency,memory`."""
    items = given.split(",") if isinstance(given, str) else given
    objectives = tuple(item if isinstance(item, Objective) else Objective.parse(item) for item in items)
    names = [objective.name for objective in objectives]
    if len(names) not in (2, 3) or len(set(names)) != len(names):
        raise ValueError(
            f"objectives={','.join(names)}: expected two or three different figures, such as decoder_params,latency"
        )
    return objectives


def read_limits(given: Mapping[str, str | float | None]) -> dict[str, float]:
    """`{"latency": "5ms", "params": 1e6}` → seconds, bytes and counts; None is no limit."""
    return {name: units.read(name, most, f"{name}_max") for name, most in given.items() if most is not None}


@dataclass(frozen=True)
class Trial:
    """A candidate and its figures. One above a limit is not looked at further: later figures are missing."""

    number: int
    candidate: Candidate
    figures: Figures
    excess: Figures
    """How far each limited figure is above its limit, as a share of it; 0 or less within."""

    @property
    def feasible(self) -> bool:
        return all(share <= 0 for share in self.excess.values())

    @property
    def violation(self) -> float:
        return sum(max(0.0, share) for share in self.excess.values())


@dataclass(frozen=True)
class Judge:
    """Figures of a config, the cheapest first; the first that is above its limit ends it."""

    stages: Sequence[Stage]
    objectives: tuple[Objective, ...]
    limits: Mapping[str, float]

    def __call__(self, number: int, candidate: Candidate) -> Trial:
        figures: Figures = {}
        excess: Figures = {}
        for stage in self.stages:
            figures |= stage(candidate.config)
            excess = {name: figures[name] / most - 1 for name, most in self.limits.items() if name in figures}
            if any(share > 0 for share in excess.values()):
                return Trial(number, candidate, figures, excess)
        self._check(figures)
        # What has no finite value cannot be compared; it counts as far above a limit.
        excess |= {one.name: 1.0 for one in self.objectives if not math.isfinite(figures[one.name])}
        return Trial(number, candidate, {name: f for name, f in figures.items() if math.isfinite(f)}, excess)

    def _check(self, figures: Figures) -> None:
        for name in (*(one.name for one in self.objectives), *self.limits):
            if name not in figures:
                raise ValueError(f"{name}: there is no such figure; there are {', '.join(figures)}")


def counted(length: int = 64, memory: int | None = None) -> Stage:
    """What a config costs, counted: for `length` new tokens after `memory` remembered ones."""

    def count(config: Model.Config) -> Figures:
        cost = config.cost(length, memory)
        return {"params": cost.params, "decoder_params": cost.decoder_params, "flops": cost.flops.total}

    return count


def weights(config: Model.Config) -> Figures:
    """Memory that any model needs at least: its parameters in fp32. Tells what is too large before it is predicted."""
    return {"memory": 4 * config.cost().params}


def table(trials: Sequence[Trial], objectives: Sequence[Objective]) -> NDArray[np.float64]:
    """Points whose every coordinate is to be small."""
    rows = [[one.sign * trial.figures[one.name] for one in objectives] for trial in trials]
    return np.array(rows, dtype=float).reshape(len(trials), len(objectives))
