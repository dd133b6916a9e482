"""Why a token was predicted: what the model gave it, what the neighbours gave it, and which of them spoke for it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch

from sublayer.data import Tokenizer
from sublayer.evaluation.scoring import reading
from sublayer.nn.model import Model
from sublayer.retrieval.key_vectors import check_place, reading_keys
from sublayer.retrieval.mixture import Mixture
from sublayer.retrieval.neighbours import Neighbours

CONTEXT = 24
"""Tokens of a neighbour's context that are shown."""
VOICES = 3


@dataclass(frozen=True)
class Voice:
    """A neighbour after whose context the token came."""

    weight: float
    """Its share of what all neighbours say."""
    context: str
    """The end of its context."""
    store: str
    token: int
    """Which token of the store's text it is, from 0."""


@dataclass(frozen=True)
class Explained:
    """One token of a text. Probabilities are those before the temperature and the cuts of sampling."""

    token: str
    model: float
    neighbours: float
    mixed: float
    voices: Sequence[Voice]
    """The neighbours that spoke for it, the loudest first."""

    def dump(self) -> dict[str, Any]:
        return asdict(self)


def explain(
    model: Model, tokenizer: Tokenizer, mixture: Mixture, ids: Sequence[int], first: int, voices: int = VOICES
) -> list[Explained]:
    """The tokens of a text from `first` on, read again in one pass."""
    if first >= len(ids):
        return []
    device = next(model.parameters()).device
    with reading(model), reading_keys(model, check_place(model, mixture.place)) as keys:
        h_1LD, _ = model(torch.tensor([ids[:-1]], device=device))
        found = mixture.search(keys(h_1LD[:, first - 1 :])[0])
        log_p_LV = model.head.log_probs(h_1LD[0, first - 1 :])
    target_L = np.array(ids[first:])
    by_model_L = log_p_LV.double().exp().cpu().numpy()[np.arange(len(target_L)), target_L]
    by_neighbours_L = found.probability(target_L, mixture.temperature)
    mixed_L = mixture.share * by_neighbours_L + (1 - mixture.share) * by_model_L
    weight_LK = found.weights(mixture.temperature)
    return [
        Explained(
            tokenizer.decode([int(token)]),
            float(by_model_L[n]),
            float(by_neighbours_L[n]),
            float(mixed_L[n]),
            _voices(tokenizer, mixture, found, weight_LK, n, int(token), voices),
        )
        for n, token in enumerate(target_L)
    ]


def _voices(
    tokenizer: Tokenizer,
    mixture: Mixture,
    found: Neighbours,
    weight_LK: np.ndarray,
    n: int,
    token: int,
    voices: int,
) -> list[Voice]:
    """Of the n-th query; neighbours are in the order of their distance, and so of their weight."""
    agree_V = np.flatnonzero((found.token_QK[n] == token) & (weight_LK[n] > 0))[:voices]
    said = []
    for k in agree_V:
        store, entry = mixture.stores[int(found.store_QK[n, k])], int(found.entry_QK[n, k])
        context = tokenizer.decode(store.tokens[max(0, entry - CONTEXT) : entry])
        said.append(Voice(float(weight_LK[n, k]), context, str(store.path), entry + 1))
    return said
