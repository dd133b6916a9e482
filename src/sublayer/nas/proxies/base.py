"""Proxy: a number that a model has before it is trained, by which models are ranked. The registry is a phone book."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import torch

from sublayer.data import Batch
from sublayer.nn.config import unknown
from sublayer.nn.model import Model
from sublayer.runs.wording import plural
from sublayer.training import request

Needs = Literal["config", "batch", "batches"]
"""What a proxy looks at: the config alone, a model and one batch, or a model and several."""

REGISTRY: dict[str, Proxy] = {}


@dataclass(frozen=True)
class Proxy:
    name: str
    function: Callable[..., float]
    cite: str
    """Where it is from."""
    needs: Needs
    higher: bool
    """Whether a higher score promises a better model."""

    @property
    def summary(self) -> str:
        """The first line of what its function says of itself."""
        return (self.function.__doc__ or "").strip().splitlines()[0]

    def score(self, config: Model.Config, batches: Batch | Sequence[Batch] = (), seed: int = 0) -> float:
        """Of the model with the weights that the seed gives it; what needs the config alone builds nothing."""
        if self.needs == "config":
            return float(self.function(config))
        request.check_kind(config)
        request.check_head(config)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            model = config.build()
        return self.of(model, batches, seed)

    def of(self, model: Model, batches: Batch | Sequence[Batch], seed: int = 0) -> float:
        """Of a model as it is. Only a proxy that trains leaves it changed; the seed is of what else is drawn."""
        if self.needs == "config":
            return float(self.function(model.config))
        batches = [batches] if isinstance(batches, Batch) else list(batches)
        least = 2 if self.needs == "batches" else 1
        if len(batches) < least:
            raise ValueError(
                f"{self.name}: {plural(len(batches), 'batch', 'batches')} of tokens given, {least} at least are needed"
            )
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            return float(self.function(model, batches if self.needs == "batches" else batches[0]))


def proxy(
    name: str, *, cite: str, needs: Needs = "batch", higher: bool = True
) -> Callable[[Callable[..., float]], Callable[..., float]]:
    """Enter a function in the registry: of a config, of (model, batch), or of (model, batches)."""

    def enter(function: Callable[..., float]) -> Callable[..., float]:
        REGISTRY[name] = Proxy(name, function, cite, needs, higher)
        return function

    return enter


def find(name: str) -> Proxy:
    if name not in REGISTRY:
        raise ValueError(unknown("proxy", name, REGISTRY))
    return REGISTRY[name]


def names() -> list[str]:
    """From the cheapest to the dearest kind."""
    return list(REGISTRY)


def score(name: str, config: Model.Config, batch: Batch | Sequence[Batch] = (), seed: int = 0) -> float:
    """One proxy of one config, with nothing trained but by the proxy itself: an objective for a search."""
    return find(name).score(config, batch, seed)
