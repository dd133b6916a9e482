"""Evolution: a fifth of the population are parents from the front, the rest their mutations and crossovers.

As published for training-free search (Javaheripi et al. 2022, appendix B): 100 = 20 parents + 40 mutations with
probability 0.3 + 40 crossovers, 30 iterations. Parents are known already, so that 100 + 30·80 = 2,500 candidates are
looked at, each once.

Where the front is larger than the parents may be, those far apart are taken (`pareto.spread`); where it is smaller, the
fronts behind it follow, and after all candidates within the limits those that exceed them least.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from random import Random

from sublayer.nas import pareto
from sublayer.nas.space import Candidate, Genes, Space
from sublayer.nas.trial import Objective, Trial, table

MUTATION = 0.3
TRIES = 200
"""Draws for one candidate that is valid and new, before the space counts as used up."""


class Method:
    """Abstract: who asks for candidates, and is told what came of them. No candidate is asked for twice.

    What is asked for depends on the seed and on what was told alone, so that telling the same again leads to the same.
    """

    def __init__(
        self, space: Space, objectives: Sequence[Objective], seed: int, population: int, first: Sequence[Genes] = ()
    ) -> None:
        self.space, self.objectives, self.seed, self.population = space, objectives, seed, population
        self.first = list(first)
        """Genes to look at before any others."""
        self.seen: set[str] = set()
        """Hashes of what was asked for."""
        self.tried: set[str] = set()
        """Genes that were drawn, valid or not."""
        self.trials: list[Trial] = []
        self.generation = 0

    @property
    def batch(self) -> int:
        """How many to ask for at a time."""
        return self.population

    def ask(self, count: int) -> list[Candidate]:
        """At most `count` new candidates; none when the space is used up."""
        raise NotImplementedError

    def tell(self, trials: Sequence[Trial]) -> None:
        self.trials += trials
        self.generation += 1

    def rng(self) -> Random:
        return Random(f"{self.seed}/{self.generation}")

    def draw(self, make: Callable[[], Genes]) -> Candidate | None:
        """One that is valid and new."""
        for _ in range(TRIES):
            genes = make()
            told = json.dumps(self.space.used(genes))
            if told in self.tried:  # much cheaper to know than to build
                continue
            self.tried.add(told)
            candidate = self.space.candidate(genes)
            if candidate is not None and candidate.hash not in self.seen:
                self.seen.add(candidate.hash)
                return candidate
        return None

    def sample(self, count: int, rng: Random) -> list[Candidate]:
        """Drawn at random; in the first generation, after those that were given."""
        made: list[Candidate] = []
        while self.first and len(made) < count:
            given = self.space.candidate(self.first.pop(0))
            if given is not None and given.hash not in self.seen:
                self.seen.add(given.hash)
                made.append(given)
        while len(made) < count and (one := self.draw(lambda: self.space.sample(rng))):
            made.append(one)
        return made


class Evolution(Method):
    @property
    def batch(self) -> int:
        return 2 * max(1, round(0.4 * self.population)) if self.trials else self.population

    def ask(self, count: int) -> list[Candidate]:
        rng = self.rng()
        if not self.trials:
            return self.sample(count, rng)
        parents = [trial.candidate.genes for trial in self.parents()]
        ways = [
            lambda: self.space.mutate(rng.choice(parents), MUTATION, rng),
            lambda: self.space.cross(*_two(parents, rng), rng),
        ]
        asked: list[Candidate] = []
        for way, most in zip(ways, ((count + 1) // 2, count // 2), strict=True):
            while most and (one := self.draw(way)):
                asked.append(one)
                most -= 1
        # Where parents have no new children, a stranger is as good.
        return asked + self.sample(count - len(asked), rng)

    def parents(self) -> list[Trial]:
        count = max(2, self.population // 5)
        within = [trial for trial in self.trials if trial.feasible]
        points = table(within, self.objectives)
        chosen: list[Trial] = []
        for front in pareto.fronts(points):
            left = count - len(chosen)
            chosen += [within[at] for at in front[pareto.spread(points[front], left)]]
            if len(chosen) == count:
                return chosen
        beyond = sorted((trial for trial in self.trials if not trial.feasible), key=lambda trial: trial.violation)
        return chosen + beyond[: count - len(chosen)]


def _two(parents: list[Genes], rng: Random) -> tuple[Genes, Genes]:
    """Different ones, where there are."""
    chosen = rng.sample(parents, min(2, len(parents)))
    return chosen[0], chosen[-1]
