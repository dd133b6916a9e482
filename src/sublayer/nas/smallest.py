"""The smallest candidate of a space; a limit below it cannot be met."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from random import Random

from sublayer.nas import units
from sublayer.nas.explore import empty
from sublayer.nas.space import Candidate, Genes, Space
from sublayer.nn.config import ConfigError

TRIES = 200


def smallest(space: Space, rng: Random) -> Candidate:
    """The candidate with the fewest parameters, found key by key."""
    drawn = (space.candidate(space.sample(rng)) for _ in range(TRIES))
    best = next((candidate for candidate in drawn if candidate is not None), None)
    if best is None:
        raise ConfigError(empty(space))
    while True:
        before = best
        for key in space.choices:
            tried = [
                best,
                *(one for genes in _variants(space, best.genes, key, rng) if (one := space.candidate(genes))),
            ]
            best = min(tried, key=lambda one: one.config.cost().params)
        if best.hash == before.hash:
            return best


def _variants(space: Space, genes: Genes, key: str, rng: Random) -> Iterator[Genes]:
    """The genes with each value of one key, the same throughout a list."""
    for value in space.choices[key].values:
        yield space.repair({**genes, key: [value] * space.most(key) if space.choices[key].each else value}, rng)


def refuse_too_small(least: Candidate, limits: Mapping[str, float]) -> None:
    params = least.config.cost().params
    if params > limits.get("params", params):
        raise ValueError(
            f"params_max={units.write('params', limits['params'])}: the smallest candidate of the space has "
            f"{units.write('params', params)} parameters; raise the limit, or search a space with smaller models"
        )
