"""TaskScore: how well the questions of a task were answered."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from jaxtyping import Bool, Int
from torch import Tensor

FIGURES = ("loss", "accuracy", "sequence_accuracy")


@dataclass(frozen=True)
class TaskScore:
    """Each answer is the likeliest class, given all that stands before it, right answers included.

    An episode is whole exactly if greedy generation would write its answers, one from the other, without a mistake. The
    accuracy of single answers is not that of generation, which continues from its own mistakes.
    """

    nats: float
    """−Σ ln p(answer)."""
    answers: int
    """Asked for."""
    right: int
    episodes: int
    """That ask for any."""
    whole: int
    """Episodes with all answers right."""

    @property
    def loss(self) -> float:
        """Nats an answer."""
        return self.nats / self.answers

    @property
    def accuracy(self) -> float:
        """The share of right answers: character accuracy, where answers are characters."""
        return self.right / self.answers

    @property
    def sequence_accuracy(self) -> float:
        """The share of episodes whose answers are all right."""
        return self.whole / self.episodes

    @property
    def counts(self) -> dict[str, float]:
        """The counts from which the figures follow."""
        return asdict(self)

    def dump(self) -> dict[str, Any]:
        """Plain JSON: counts and figures."""
        return {**self.counts, **{name: getattr(self, name) for name in FIGURES}}


class Tally:
    """A TaskScore in the making: an episode may come in several segments."""

    def __init__(self) -> None:
        self.nats = 0.0
        self.asked_E, self.right_E = np.zeros((2, 0), np.int64)

    def add(
        self,
        nats: float,
        right_BL: Bool[Tensor, "B L"],
        weights_BL: Tensor,
        episode_BL: Int[Tensor, "B L"],
    ) -> None:
        """nats: of all answers of the batch."""
        asked_BL = weights_BL.cpu().numpy() > 0
        self.nats += nats
        episode_N, right_N = episode_BL.cpu().numpy()[asked_BL], right_BL.cpu().numpy()[asked_BL]
        self._grow(int(episode_N.max(initial=-1)) + 1)
        np.add.at(self.asked_E, episode_N, 1)
        np.add.at(self.right_E, episode_N, right_N)

    @property
    def score(self) -> TaskScore:
        there_E = self.asked_E > 0
        whole = int((there_E & (self.right_E == self.asked_E)).sum())
        return TaskScore(self.nats, int(self.asked_E.sum()), int(self.right_E.sum()), int(there_E.sum()), whole)

    def _grow(self, episodes: int) -> None:
        more = max(0, episodes - len(self.asked_E))
        self.asked_E, self.right_E = (np.pad(count_E, (0, more)) for count_E in (self.asked_E, self.right_E))
