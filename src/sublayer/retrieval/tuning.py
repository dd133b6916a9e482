"""Tuning: the λ and the temperature that predict a text best, from one reading of it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from jaxtyping import Float, Int
from torch import Tensor

from sublayer.data import Tokens
from sublayer.evaluation.scoring import score
from sublayer.nn.model import Model
from sublayer.retrieval.mixture import Mixture, NeighbourScorer
from sublayer.retrieval.neighbours import Neighbours

TEMPERATURES = tuple(2 ** (n / 3) for n in range(-18, 19))
"""What is tried, as multiples of the mixture's temperature: a sixty-fourth to 64 times, in steps of a quarter."""
HALVINGS = 40


@dataclass(frozen=True)
class Tuned:
    mixture: Mixture
    loss: float
    """With these values, on the text they were tuned on."""
    model_loss: float
    """Of the model alone there."""

    def dump(self) -> dict[str, float]:
        return {"loss": self.loss, "model_loss": self.model_loss}


class TuningScorer(NeighbourScorer):
    """Scores by the model alone, and notes what the neighbours say at every temperature."""

    def __init__(self, mixture: Mixture, tokens: Tokens) -> None:
        super().__init__(mixture, tokens)
        self.temperatures = [mixture.temperature * times for times in TEMPERATURES]
        self._nats: list[np.ndarray] = []
        self._probabilities: list[np.ndarray] = []

    def combine(self, nats_N: Tensor, target_N: Int[np.ndarray, " N"], found: Neighbours) -> Tensor:
        self._nats.append(nats_N.double().cpu().numpy())
        self._probabilities.append(np.stack([found.probability(target_N, one) for one in self.temperatures]))
        return nats_N

    def best(self) -> Tuned:
        nats_N, probability_TN = np.concatenate(self._nats), np.concatenate(self._probabilities, axis=1)
        model_N = np.exp(-nats_N)
        shares = [best_share(model_N, probability_N) for probability_N in probability_TN]
        losses = [
            -np.log((1 - share) * model_N + share * probability_N).mean() if share else nats_N.mean()
            for share, probability_N in zip(shares, probability_TN, strict=True)
        ]
        best = int(np.argmin(losses))
        mixture = replace(self.mixture, share=shares[best], temperature=self.temperatures[best])
        return Tuned(mixture, float(losses[best]), float(nats_N.mean()))


def best_share(model_N: Float[np.ndarray, " N"], probability_N: Float[np.ndarray, " N"]) -> float:
    """argmax over λ of Σ ln(λ p + (1 − λ) q), which has one maximum: where its slope changes its sign."""
    apart_N, low, high = probability_N - model_N, 0.0, 1.0

    def rises(share: float) -> bool:
        with np.errstate(divide="ignore", invalid="ignore"):
            slope_N = apart_N / (model_N + share * apart_N)
        return bool(np.nansum(slope_N) > 0)

    if not rises(0.0):
        return 0.0
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if rises(middle) else (low, middle)
    return low


def tune(model: Model, mixture: Mixture, tokens: Tokens, **how: Any) -> Tuned:
    """The best λ and temperature for a text. how: as for `evaluation.score`."""
    scorer = TuningScorer(mixture, tokens)
    score(model, tokens, scorer=scorer, **how)
    return scorer.best()
