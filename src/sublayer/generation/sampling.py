"""From scores to the next id: pure functions scores_BV → scores_BV, and one draw.

They apply in the order of this file: ids that are never chosen, a penalty on ids that are in the text already, the
temperature, then the cuts of unlikely ids. Scores of what cannot be chosen become −∞.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Bool, Float, Int
from pydantic import field_validator
from torch import Tensor

from sublayer.nn.config import Config


class Sampling(Config, tag="sampling"):
    """How the next id is chosen; greedily by default."""

    temperature: float = 0.0
    """Scores are divided by it; 0 takes the best."""
    top_k: int | None = None
    """Only the k best; None for all."""
    top_p: float = 1.0
    """Only the fewest ids whose probabilities sum to p."""
    min_p: float = 0.0
    """Only ids at least this share as probable as the best."""
    repetition: float = 1.0
    """Penalty on ids that the prompt or the text already contains; 1 for none."""
    never: tuple[int, ...] = ()
    """Ids that are never chosen, such as one that only begins a text."""

    @property
    def greedy(self) -> bool:
        return self.temperature == 0

    @field_validator("temperature")
    @classmethod
    def _warm(cls, value: float) -> float:
        return _within(
            value, value >= 0, "a temperature, 0 for greedy or more; 1 draws from the model's own distribution"
        )

    @field_validator("top_k")
    @classmethod
    def _some(cls, value: int | None) -> int | None:
        if value is not None and value < 1:
            raise ValueError(f"{value} leaves no id to choose; use 1 or more, or leave it out for all")
        return value

    @field_validator("top_p")
    @classmethod
    def _probable(cls, value: float) -> float:
        return _within(value, 0 < value <= 1, "a probability above 0 and up to 1; 1 keeps all ids")

    @field_validator("min_p")
    @classmethod
    def _share(cls, value: float) -> float:
        return _within(value, 0 <= value <= 1, "a share from 0 to 1 of the best id's probability; 0 keeps all ids")

    @field_validator("repetition")
    @classmethod
    def _penalty(cls, value: float) -> float:
        return _within(value, value > 0, "a penalty above 0; 1 for none, 1.2 as in the paper")

    def shape(
        self, scores_BV: Float[Tensor, "B V"], seen_BV: Bool[Tensor, "B V"] | None = None
    ) -> Float[Tensor, "B V"]:
        """The scores to draw from."""
        if self.never:
            scores_BV = scores_BV.index_fill(1, torch.tensor(self.never, device=scores_BV.device), -torch.inf)
        if self.repetition != 1 and seen_BV is not None:
            scores_BV = penalise(scores_BV, seen_BV, self.repetition)
        if self.greedy:
            return scores_BV
        scores_BV = temper(scores_BV, self.temperature)
        if self.top_k is not None:
            scores_BV = keep_top_k(scores_BV, self.top_k)
        if self.top_p < 1:
            scores_BV = keep_top_p(scores_BV, self.top_p)
        return keep_min_p(scores_BV, self.min_p) if self.min_p else scores_BV


def penalise(scores_BV: Float[Tensor, "B V"], seen_BV: Bool[Tensor, "B V"], penalty: float) -> Float[Tensor, "B V"]:
    """Positive scores of ids seen are divided by the penalty, negative ones multiplied (Keskar et al. 2019, 4.1)."""
    less_BV = torch.where(scores_BV > 0, scores_BV / penalty, scores_BV * penalty)
    return torch.where(seen_BV, less_BV, scores_BV)


def temper(scores_BV: Float[Tensor, "B V"], temperature: float) -> Float[Tensor, "B V"]:
    """Scores over the temperature, in float64 from here on; the best is moved to 0, so that none overflows."""
    scores_BV = scores_BV.double()
    return (scores_BV - scores_BV.amax(1, keepdim=True)) / temperature


def keep_top_k(scores_BV: Float[Tensor, "B V"], k: int) -> Float[Tensor, "B V"]:
    """The k best (Fan et al. 2018); those that tie with the k-th stay too."""
    least_B1 = scores_BV.topk(min(k, scores_BV.shape[1]), dim=1).values[:, -1:]
    return scores_BV.masked_fill(scores_BV < least_B1, -torch.inf)


def keep_top_p(scores_BV: Float[Tensor, "B V"], p: float) -> Float[Tensor, "B V"]:
    """The fewest ids, most probable first, whose probabilities sum to p or more (Holtzman et al. 2020, eq. 2)."""
    sorted_BV, order_BV = scores_BV.sort(dim=1, descending=True, stable=True)
    weight_BV = sorted_BV.softmax(1)
    before_BV = weight_BV.cumsum(1) - weight_BV
    cut_BV = torch.zeros_like(scores_BV, dtype=torch.bool).scatter(1, order_BV, before_BV >= p)
    return scores_BV.masked_fill(cut_BV, -torch.inf)


def keep_min_p(scores_BV: Float[Tensor, "B V"], share: float) -> Float[Tensor, "B V"]:
    """Ids at least `share` times as probable as the best (Nguyen et al. 2024)."""
    weight_BV = (scores_BV - scores_BV.amax(1, keepdim=True)).exp()
    return scores_BV.masked_fill(weight_BV < share, -torch.inf)


def block_ngrams(scores_BV: Float[Tensor, "B V"], ids: Sequence[Sequence[int]], n: int) -> Float[Tensor, "B V"]:
    """No id that would complete a run of n ids which the row has already (Paulus et al. 2018, section 2.5)."""
    blocked = [(row, last) for row, ids_so_far in enumerate(ids) for last in _completing(ids_so_far, n)]
    if not blocked:
        return scores_BV
    rows, columns = torch.tensor(blocked, device=scores_BV.device).T
    return scores_BV.index_put((rows, columns), scores_BV.new_tensor(-torch.inf))


def pick(scores_BV: Float[Tensor, "B V"], generators: Sequence[torch.Generator] | None = None) -> Int[Tensor, " B"]:
    """The best id of each row, or one drawn from its softmax by the row's own generator.

    One number u a row, uniform in [0, 1): the id at which the cumulated probabilities pass u. So a row draws the
    same id alone or in a batch.
    """
    if generators is None:
        return scores_BV.argmax(1)
    u_B1 = torch.stack([torch.rand(1, dtype=torch.float64, device="cpu", generator=one) for one in generators])
    passed_BV = scores_BV.double().softmax(1).cumsum(1)
    drawn_B1 = torch.searchsorted(passed_BV, u_B1.to(passed_BV) * passed_BV[:, -1:], right=True)
    return drawn_B1.squeeze(1).clamp(max=scores_BV.shape[1] - 1)


def _completing(ids_so_far: Sequence[int], n: int) -> set[int]:
    start = tuple(ids_so_far[len(ids_so_far) - n + 1 :]) if n > 1 else ()
    return {ids_so_far[i + n - 1] for i in range(len(ids_so_far) - n + 1) if tuple(ids_so_far[i : i + n - 1]) == start}


def _within(value: float, good: bool, expected: str) -> float:
    if not good:
        raise ValueError(f"{value} is not {expected}")
    return value
