"""Proxy: a figure of an untrained model, by which models are ranked; and the registry of proxies."""

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
"""What a proxy reads: the config alone, a model and one batch, or a model and several."""

REGISTRY: dict[str, Proxy] = {}


@dataclass(frozen=True)
class Proxy:
    name: str
    function: Callable[..., float]
    cite: str
    """The paper."""
    needs: Needs
    higher: bool
    """Whether a higher score means a better model."""

    @property
    def summary(self) -> str:
        """The first line of its function's docstring."""
        return (self.function.__doc__ or "").strip().splitlines()[0]

    def score(self, config: Model.Config, batches: Batch | Sequence[Batch] = (), seed: int = 0) -> float:
        """The score of a config's model with the initial weights of this seed; built only if the proxy needs it."""
        if self.needs == "config":
            return float(self.function(config))
        request.check_kind(config)
        request.check_head(config)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            model = config.build()
        return self.of(model, batches, seed)

    def of(self, model: Model, batches: Batch | Sequence[Batch], seed: int = 0) -> float:
        """The score of a model as it is. Only a proxy that trains changes it; the seed is for all other randomness."""
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
    """Register a function of a config, of (model, batch), or of (model, batches)."""

    def enter(function: Callable[..., float]) -> Callable[..., float]:
        REGISTRY[name] = Proxy(name, function, cite, needs, higher)
        return function

    return enter


def find(name: str) -> Proxy:
    if name not in REGISTRY:
        raise ValueError(unknown("proxy", name, REGISTRY))
    return REGISTRY[name]


def names() -> list[str]:
    """All names, from the cheapest to the most expensive."""
    return list(REGISTRY)


def score(name: str, config: Model.Config, batch: Batch | Sequence[Batch] = (), seed: int = 0) -> float:
    """One proxy of one config."""
    return find(name).score(config, batch, seed)
