"""Evolution: a fifth of the population are parents from the front, the rest their mutations and crossovers.

As published for training-free search (Javaheripi et al. 2022, appendix B): 100 = 20 parents + 40 mutations with
probability 0.3 + 40 crossovers, 30 iterations. Parents are known already, so that 100 + 30·80 = 2,500 candidates are
evaluated, each once.

If the front has more trials than there are parents, those far apart are taken (`pareto.spread`); if it has fewer, the
fronts behind it follow, and after all candidates within the limits those that exceed them least.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from random import Random

from sublayer.nas import pareto
from sublayer.nas.records import SearchGoal
from sublayer.nas.space import Candidate, Genes, Space
from sublayer.nas.trial import Trial, table

MUTATION = 0.3
TRIES = 200
"""Draws for one candidate that is valid and new, before the space counts as used up."""


class Method:
    """Abstract: proposes candidates and learns how they did, an ask-and-tell interface. No candidate comes twice.

    What `ask` gives depends only on the seed and on earlier `tell`s, so that a search can be replayed.
    """

    def __init__(
        self, space: Space, goals: Sequence[SearchGoal], seed: int, population: int, first: Sequence[Genes] = ()
    ) -> None:
        self.space, self.goals, self.seed, self.population = space, goals, seed, population
        self.first = list(first)
        """Genes to propose before any others."""
        self.seen: set[str] = set()
        """Hashes of the candidates proposed."""
        self.tried: set[str] = set()
        """Genes that were drawn, valid or not, as JSON."""
        self.trials: list[Trial] = []
        self.generation = 0

    @property
    def batch(self) -> int:
        """The size of the next generation."""
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
        """A candidate that is valid and new; None where TRIES draws bring none."""
        for _ in range(TRIES):
            genes = make()
            written = json.dumps(self.space.used(genes))
            if written in self.tried:  # far cheaper than building the config to compare hashes
                continue
            self.tried.add(written)
            candidate = self.space.candidate(genes)
            if candidate is not None and candidate.hash not in self.seen:
                self.seen.add(candidate.hash)
                return candidate
        return None

    def sample(self, count: int, rng: Random) -> list[Candidate]:
        """Draw candidates at random; in the first generation, after those given as `first`."""
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
        makers = [
            lambda: self.space.mutate(rng.choice(parents), MUTATION, rng),
            lambda: self.space.cross(*_two(parents, rng), rng),
        ]
        asked: list[Candidate] = []
        for make, most in zip(makers, ((count + 1) // 2, count // 2), strict=True):
            while most and (one := self.draw(make)):
                asked.append(one)
                most -= 1
        # Where parents have no new children, random candidates fill the generation.
        return asked + self.sample(count - len(asked), rng)

    def parents(self) -> list[Trial]:
        count = max(2, self.population // 5)
        within = [trial for trial in self.trials if trial.feasible]
        points = table(within, self.goals)
        chosen: list[Trial] = []
        for front in pareto.fronts(points):
            left = count - len(chosen)
            chosen += [within[at] for at in front[pareto.spread(points[front], left)]]
            if len(chosen) == count:
                return chosen
        beyond = sorted((trial for trial in self.trials if not trial.feasible), key=lambda trial: trial.violation)
        return chosen + beyond[: count - len(chosen)]


def _two(parents: list[Genes], rng: Random) -> tuple[Genes, Genes]:
    """Two different parents, where there are two."""
    chosen = rng.sample(parents, min(2, len(parents)))
    return chosen[0], chosen[-1]
