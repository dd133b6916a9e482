"""The schedule of a search: phases, temperature and end, as functions of the step alone."""

from __future__ import annotations

from dataclasses import dataclass

from sublayer.nas.supernet.config import SearchConfig

ROUNDS = 10
"""Least number of rounds, where an epoch would be longer."""


@dataclass(frozen=True)
class Plan:
    """`warmup` steps of the weights alone, then rounds that end with steps of the architecture."""

    steps: int
    warmup: int
    round: int
    tuned: int
    """Steps of a round that train the architecture."""
    tau_start: float
    tau_end: float
    patience: float

    @classmethod
    def of(cls, config: SearchConfig, epoch: int) -> Plan:
        """`epoch`: steps in which the weights are trained on their text once."""
        warmup = round(config.steps * config.warmup)
        left = max(1, config.steps - warmup)
        default = max(2, min(round(epoch / (1 - config.share)), left // ROUNDS))
        size = config.round or default
        tuned = min(size - 1, max(1, round(size * config.share)))
        return cls(config.steps, warmup, size, tuned, config.tau_start, config.tau_end, config.patience)

    def tunes(self, step: int) -> bool:
        """Whether a step, counted from 0, trains the architecture instead of the weights."""
        return step >= self.warmup and (step - self.warmup) % self.round >= self.round - self.tuned

    @property
    def stage(self) -> int:
        """All steps of the architecture."""
        whole, rest = divmod(max(0, self.steps - self.warmup), self.round)
        return whole * self.tuned + max(0, rest - (self.round - self.tuned))

    def temperature(self, step: int) -> float:
        """τ_start·(τ_end/τ_start)^spent, spent from 0 after the warm-up to 1 at the end."""
        spent = max(0, step - self.warmup) / max(1, self.steps - self.warmup)
        return self.tau_start * (self.tau_end / self.tau_start) ** min(1.0, spent)

    def settled(self, tuned: int, changed: int) -> bool:
        """Whether the word has stopped changing: of `tuned` steps of the architecture, `changed` last changed it."""
        return tuned > 0 and tuned - changed >= self.patience * self.stage
