"""Mixture: p(token) = λ p(token by neighbours) + (1 − λ) p(token by the model) (Khandelwal et al. 2020, eq. 3)."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from sublayer.data import Tokenizer, Tokens
from sublayer.evaluation.passes import Rows
from sublayer.evaluation.scorer import Nats, Scorer
from sublayer.nn.model import Model
from sublayer.retrieval.key_vectors import KeyPlace, check_place, reading_keys
from sublayer.retrieval.neighbours import Neighbours, search
from sublayer.retrieval.own_text import own_shift
from sublayer.retrieval.store import Store

NEIGHBOURS, SHARE = 1024, 0.25
"""The paper's, where none are given."""
QUERIES = 512
"""Contexts looked up at once: with 1,024 neighbours of each, about 30 MB."""


@dataclass(frozen=True)
class Mixture:
    tokenizer: Tokenizer
    stores: tuple[Store, ...]
    neighbours: int
    share: float
    """λ."""
    temperature: float
    """Squared distances are divided by it."""

    @classmethod
    def open(
        cls,
        model: Model,
        tokenizer: Tokenizer,
        paths: Sequence[Path | str],
        neighbours: int | None = None,
        share: float | None = None,
        temperature: float | None = None,
    ) -> Mixture:
        """Stores of this model, opened and checked. neighbours: 1,024 if not given, or all there are. share: 0.25.
        temperature: the root of the keys' width, as attention divides its scores."""
        if not paths:
            raise ValueError("datastore: none given; name at least one folder, as sublayer datastore build makes it")
        share = SHARE if share is None else share
        if not 0 <= share <= 1:
            raise ValueError(f"lambda={share}: expected a share from 0 (the model alone) to 1 (neighbours alone)")
        if temperature is not None and not (temperature > 0 and math.isfinite(temperature)):
            raise ValueError(f"temperature={temperature}: distances are divided by it; use a number above 0")
        stores = tuple(Store.open(path) for path in paths)
        for store in stores:
            store.check(model, tokenizer)
            if store.facts.key != stores[0].facts.key:
                raise ValueError(
                    f"{store.path}: its keys are {store.facts.key}, those of {stores[0].path} {stores[0].facts.key}; "
                    "use stores with the same --key"
                )
        entries = sum(map(len, stores))
        neighbours = min(NEIGHBOURS, entries) if neighbours is None else neighbours
        if not 1 <= neighbours <= entries:
            raise ValueError(f"neighbours={neighbours:,}: expected 1 to {entries:,}, the entries there are")
        return cls(tokenizer, stores, neighbours, share, temperature or math.sqrt(stores[0].facts.dim))

    @cached_property
    def place(self) -> KeyPlace:
        return self.stores[0].facts.key  # pyright: ignore[reportReturnType]

    def search(self, queries_QD: Float[Tensor, "Q D"], own: Sequence[np.ndarray | None] | None = None) -> Neighbours:
        return search(self.stores, queries_QD, self.neighbours, own)

    def own_shifts(self, tokens: Tokens) -> list[int | None]:
        return [own_shift(store, tokens, self.tokenizer) for store in self.stores]

    def dump(self) -> dict[str, Any]:
        """What a score depends on, as plain JSON."""
        stores = [
            {
                "store": str(store.path),
                "text": store.facts.title,
                "entries": len(store),
                "index": store.index_facts.config["kind"],
                "recall": store.recall,
            }
            for store in self.stores
        ]
        settings = {"neighbours": self.neighbours, "lambda": self.share, "temperature": self.temperature}
        return {"datastores": stores, "key": self.place, **settings}


def mix(nats_N: Float[Tensor, " N"], probability_N: Float[np.ndarray, " N"], share: float) -> Float[Tensor, " N"]:
    """−ln(λ p + (1 − λ) exp(−nats)), in float64."""
    model_N = math.log1p(-share) - nats_N.double() if share < 1 else torch.full_like(nats_N, -torch.inf).double()
    neighbours_N = torch.from_numpy(probability_N).to(model_N).log() + math.log(share)
    return -torch.logaddexp(model_N, neighbours_N)


class NeighbourScorer(Scorer):
    """Abstract: scores each target by the model's nats and the neighbours of its context."""

    def __init__(self, mixture: Mixture, tokens: Tokens) -> None:
        self.mixture, self.shifts = mixture, mixture.own_shifts(tokens)

    def combine(self, nats_N: Tensor, target_N: Int[np.ndarray, " N"], found: Neighbours) -> Tensor:
        """The nats of targets, from those of the model."""
        raise NotImplementedError

    def _look_up(self, nats_N: Tensor, keys_ND: Tensor, target_N: np.ndarray, at_N: np.ndarray) -> Tensor:
        """at: which tokens of the text the targets are."""
        own = [None if shift is None else at_N + shift for shift in self.shifts]
        return self.combine(nats_N, target_N, self.mixture.search(keys_ND, own))

    @contextmanager
    def on(self, model: Model) -> Iterator[Nats]:
        place = check_place(model, self.mixture.place)
        with super().on(model) as own_nats, reading_keys(model, place) as keys:

            def nats(h_BSD: Tensor, rows: Rows) -> Tensor:
                nats_BS, keys_BSD = own_nats(h_BSD, rows), keys(h_BSD)
                asked_BS = rows.targets_BS != -100
                at_N = (rows.first_B[:, None] + np.arange(asked_BS.shape[1]))[asked_BS.numpy()]
                asked = asked_BS.to(nats_BS.device)
                nats_N, keys_ND, target_N = nats_BS[asked], keys_BSD[asked], rows.targets_BS[asked_BS].numpy()
                pieces = [slice(n, n + QUERIES) for n in range(0, len(at_N), QUERIES)]
                mixed = [self._look_up(nats_N[n], keys_ND[n], target_N[n], at_N[n]) for n in pieces]
                return nats_BS.double().masked_scatter(asked, torch.cat(mixed).double())

            yield nats


class MixtureScorer(NeighbourScorer):
    """By the mixture; with λ = 0 by the model alone, to the last bit."""

    def __init__(self, mixture: Mixture, tokens: Tokens) -> None:
        super().__init__(mixture, tokens)
        self.model_nats = 0.0
        """Of the model alone, over all targets."""

    def combine(self, nats_N: Tensor, target_N: Int[np.ndarray, " N"], found: Neighbours) -> Tensor:
        self.model_nats += float(nats_N.sum(dtype=torch.float64))
        return mix(nats_N, found.probability(target_N, self.mixture.temperature), self.mixture.share)

    @contextmanager
    def on(self, model: Model) -> Iterator[Nats]:
        if self.mixture.share:
            with super().on(model) as nats:
                yield nats
            return
        with Scorer.on(self, model) as nats:
            yield nats
