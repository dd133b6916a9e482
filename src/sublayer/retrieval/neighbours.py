"""Neighbours: the entries of one or several stores whose keys are nearest to a query, and what they say comes next."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from sublayer.retrieval.store import Store

SPARE = 8
"""Candidates beyond those asked for: searches round, so that the last of them may be in the wrong order."""


@dataclass(frozen=True)
class Neighbours:
    """Of each query the K nearest, the nearest first; at equal distance the earlier in the text."""

    distance_QK: Float[np.ndarray, "Q K"]
    """Squared; inf where there is none, as an approximate search may find fewer."""
    token_QK: Int[np.ndarray, "Q K"]
    store_QK: Int[np.ndarray, "Q K"]
    """Which of the stores it is from."""
    entry_QK: Int[np.ndarray, "Q K"]
    """Its number there; −1 where there is none."""

    def weights(self, temperature: float) -> Float[np.ndarray, "Q K"]:
        """softmax(−distance / temperature); all 0 where there is no neighbour."""
        nearest_Q1 = self.distance_QK.min(axis=1, keepdims=True, initial=np.inf)
        apart_QK = self.distance_QK - np.where(np.isfinite(nearest_Q1), nearest_Q1, 0)
        weight_QK = np.exp(-apart_QK / temperature)
        total_Q1 = weight_QK.sum(axis=1, keepdims=True)
        return weight_QK / np.where(total_Q1 > 0, total_Q1, 1)

    def probability(self, token_Q: Int[np.ndarray, " Q"], temperature: float) -> Float[np.ndarray, " Q"]:
        """p(token) = Σ of the weights of those neighbours after which it came (Khandelwal et al. 2020, eq. 2)."""
        return (self.weights(temperature) * (self.token_QK == token_Q[:, None])).sum(axis=1)

    def probabilities(self, vocab: int, temperature: float) -> Float[np.ndarray, "Q V"]:
        """p of every token."""
        found_QV = np.zeros((len(self.token_QK), vocab))
        row_Q1 = np.arange(len(self.token_QK))[:, None]
        np.add.at(found_QV, (row_Q1, self.token_QK), self.weights(temperature))
        return found_QV


def search(
    stores: Sequence[Store],
    queries_QD: Float[Tensor, "Q D"],
    count: int,
    own: Sequence[Int[np.ndarray, " Q"] | None] | None = None,
) -> Neighbours:
    """The `count` nearest entries of all stores together.

    own: for each store the entry that each query itself is, which is left out; None for a store of another text.
    """
    queries_QD = queries_QD.detach().cpu().float()
    found = [_in_store(store, n, queries_QD, count, own[n] if own else None) for n, store in enumerate(stores)]
    if len(found) == 1:
        return found[0]
    columns = ("distance_QK", "token_QK", "store_QK", "entry_QK")
    together = {name: np.concatenate([getattr(one, name) for one in found], axis=1) for name in columns}
    order_QK = np.argsort(together["distance_QK"], axis=1, kind="stable")[:, :count]
    return Neighbours(**{name: np.take_along_axis(array, order_QK, axis=1) for name, array in together.items()})


def _in_store(
    store: Store, number: int, queries_QD: Tensor, count: int, own_Q: Int[np.ndarray, " Q"] | None
) -> Neighbours:
    spare = SPARE + (own_Q is not None)
    entry_QC = store.index.search(queries_QD * store.facts.scale, min(count + spare, len(store)))
    if own_Q is not None:
        entry_QC = np.where(entry_QC == own_Q[:, None], -1, entry_QC)
    distance_QC = store.distances(queries_QD, entry_QC)
    order_QK = np.lexsort((entry_QC, distance_QC), axis=1)[:, :count]
    entry_QK, distance_QK = (np.take_along_axis(one, order_QK, axis=1) for one in (entry_QC, distance_QC))
    token_QK = np.where(entry_QK < 0, -1, store.tokens[entry_QK].astype(np.int64))
    return Neighbours(distance_QK, token_QK, np.full_like(entry_QK, number), entry_QK)


def brute_force(
    stores: Sequence[Store], query_D: Float[Tensor, " D"], count: int, temperature: float, vocab: int
) -> Float[np.ndarray, " V"]:
    """p of every token after one query, from the distance to every key; the slow, obvious twin."""
    pairs: list[tuple[float, int]] = []
    for store in stores:
        keys_ND = store.keys.rows(np.arange(len(store))).double() / store.facts.scale
        distance_N = (query_D.double() - keys_ND).square().sum(1)
        pairs += zip(distance_N.tolist(), store.tokens.tolist(), strict=True)
    nearest = sorted(pairs, key=lambda pair: pair[0])[:count]
    weights = torch.softmax(torch.tensor([-distance / temperature for distance, _ in nearest]), 0)
    found_V = np.zeros(vocab)
    for weight, (_, token) in zip(weights.tolist(), nearest, strict=True):
        found_V[token] += weight
    return found_V
