"""Genes as Optuna's parameters: one name each, `f.inner.3` for the fourth of a list."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from sublayer.nas.space import Genes, Space

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution


def distributions(space: Space) -> dict[str, BaseDistribution]:
    """All parameters of a space."""
    from optuna.distributions import CategoricalDistribution, IntDistribution

    made: dict[str, BaseDistribution] = {}
    for key, choice in space.choices.items():
        if choice.steps:
            low, high, step = choice.steps
            kind = IntDistribution(low, high, step=step)
        else:
            kind = CategoricalDistribution([_plain(value) for value in choice.values])
        made |= dict.fromkeys(_names(space, key, space.most(key)), kind)
    return made


def params_of(space: Space, genes: Genes) -> dict[str, Any]:
    """The parameters of genes, whose lists may be shorter than the space's."""
    params: dict[str, Any] = {}
    for key, gene in genes.items():
        values = gene if space.choices[key].each else [gene]
        params |= zip(_names(space, key, len(values)), map(_plain, values), strict=True)
    return params


def genes_of(space: Space, params: dict[str, Any]) -> Genes:
    """The genes of a complete set of parameters."""
    genes: Genes = {}
    for key, choice in space.choices.items():
        meant = {_plain(value): value for value in choice.values}
        values = [meant[params[name]] for name in _names(space, key, space.most(key))]
        genes[key] = values if choice.each else values[0]
    return genes


def _names(space: Space, key: str, count: int) -> list[str]:
    return [f"{key}.{n}" for n in range(count)] if space.choices[key].each else [key]


def _plain(value: Any) -> Any:
    """Optuna takes numbers, booleans, strings and None; all else is passed as JSON."""
    return value if value is None or isinstance(value, bool | int | float | str) else json.dumps(value)
