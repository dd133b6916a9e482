"""When a search does what: its phases, its temperature and its end, as functions of the step alone."""

from __future__ import annotations

from dataclasses import dataclass

from sublayer.nas.supernet.config import SearchConfig

ROUNDS = 10
"""At least so many alternations, where an epoch would be longer."""


@dataclass(frozen=True)
class Plan:
    """`still` steps of the weights alone, then rounds that end with the architecture."""

    steps: int
    still: int
    round: int
    tuned: int
    """Steps of a round that belong to the architecture."""
    hot: float
    cold: float
    settled_share: float

    @classmethod
    def of(cls, config: SearchConfig, epoch: int) -> Plan:
        """`epoch`: steps in which the weights read their text once."""
        still = round(config.steps * config.still)
        left = max(1, config.steps - still)
        default = max(2, min(round(epoch / (1 - config.share)), left // ROUNDS))
        size = config.round or default
        tuned = min(size - 1, max(1, round(size * config.share)))
        return cls(config.steps, still, size, tuned, config.hot, config.cold, config.settled)

    def tunes(self, step: int) -> bool:
        """Whether a step, counted from 0, moves the architecture instead of the weights."""
        return step >= self.still and (step - self.still) % self.round >= self.round - self.tuned

    @property
    def stage(self) -> int:
        """Steps of the architecture in all."""
        whole, rest = divmod(max(0, self.steps - self.still), self.round)
        return whole * self.tuned + max(0, rest - (self.round - self.tuned))

    def temperature(self, step: int) -> float:
        """hot·(cold/hot)^spent, spent from 0 when the architecture begins to move to 1 at the end."""
        spent = max(0, step - self.still) / max(1, self.steps - self.still)
        return self.hot * (self.cold / self.hot) ** min(1.0, spent)

    def settled(self, tuned: int, changed: int) -> bool:
        """Whether the word stands: after `tuned` steps of the architecture, the last that changed it was `changed`."""
        return tuned > 0 and tuned - changed >= self.settled_share * self.stage
