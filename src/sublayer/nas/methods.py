"""Search methods by name: evolution, and to compare with it random search and Optuna's NSGA-II."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any

from sublayer.nas.evolution import Evolution, Method
from sublayer.nas.parameters import distributions, genes_of, params_of
from sublayer.nas.space import Candidate, Genes
from sublayer.nas.trial import Trial
from sublayer.nn.config import unknown

PATIENCE = 50
"""Proposals for one generation, in populations, after which the space counts as used up."""


class RandomSearch(Method):
    def ask(self, count: int) -> list[Candidate]:
        return self.sample(count, self.rng())


class Nsga2(Method):
    """Non-dominated sorting and crowding (Deb et al. 2002), by Optuna's sampler with its own rates.

    The sampler may repeat a proposal, or propose what a rule forbids. A repeated proposal gets the values of the first;
    forbidden genes are drawn anew. An invalid config is reported as far above the limits.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        import optuna

        super().__init__(*args, **kwargs)
        if not 0 <= self.seed < 2**32:
            raise ValueError(f"seed={self.seed}: nsga2 takes 0 to {2**32 - 1:,}; use a smaller one, or another method")
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        sampler = optuna.samplers.NSGAIISampler(population_size=self.population, seed=self.seed)
        directions: list[Any] = [goal.direction for goal in self.goals]
        self.study = optuna.create_study(sampler=sampler, directions=directions)
        self.distributions = distributions(self.space)
        self.waiting: dict[str, list[Any]] = {}
        self.known: dict[str, Trial] = {}
        for genes in self.first:
            self.study.enqueue_trial(params_of(self.space, genes))

    def ask(self, count: int) -> list[Candidate]:
        asked: list[Candidate] = []
        for _ in range(PATIENCE * self.population):
            if len(asked) == count:
                break
            proposed = self.study.ask(self.distributions)
            candidate = self._candidate(proposed.number, proposed.params)
            if candidate is None:
                self._tell(proposed, None)
            elif candidate.hash in self.known:
                self._tell(proposed, self.known[candidate.hash])
            else:
                if candidate.hash not in self.seen:
                    asked.append(candidate)
                self.seen.add(candidate.hash)
                self.waiting.setdefault(candidate.hash, []).append(proposed)
        return asked

    def tell(self, trials: Sequence[Trial]) -> None:
        super().tell(trials)
        for trial in trials:
            self.known[trial.candidate.hash] = trial
            for proposed in self.waiting.pop(trial.candidate.hash):
                self._tell(proposed, trial)

    def _candidate(self, number: int, params: dict[str, Any]) -> Candidate | None:
        genes: Genes = genes_of(self.space, params)
        return self.space.candidate(self.space.repair(genes, Random(f"{self.seed}/{number}")))

    def _tell(self, proposed: Any, trial: Trial | None) -> None:
        """Optuna compares trials above limits by how far they are above, so that their values may be missing."""
        excess = {"valid": 1e9} if trial is None else {"valid": 0.0, **trial.excess}
        for name, share in excess.items():
            proposed.set_constraint(name, float(share))
        figures = trial.figures if trial is not None and trial.feasible else {}
        self.study.tell(proposed, [float(figures.get(goal.name, 0.0)) for goal in self.goals])


METHODS: dict[str, type[Method]] = {"evolution": Evolution, "random": RandomSearch, "nsga2": Nsga2}


def find(name: str) -> type[Method]:
    if name not in METHODS:
        raise ValueError(unknown("method", name, METHODS))
    return METHODS[name]
