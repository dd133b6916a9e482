"""Schedules: the share of the peak learning rate at a step; a function of step and budget, so nothing is saved.

The rate rises linearly in the warm-up, and the schedule begins after it: so the peak is reached, and the floor at the
end of the budget.
"""

from __future__ import annotations

import math

from pydantic import Field

from sublayer.nn.config import Config


class Schedule:
    """Abstract: a kind gives `share`."""

    class Config(Config, family="schedule"):
        def build(self) -> Schedule:
            return self.owner(self)

    def __init__(self, config: Schedule.Config) -> None:
        self.config = config

    def rate(self, step: int, warmup: int, spent: float) -> float:
        """The share at a step, counted from 0. spent: the share of the budget spent before it."""
        if step < warmup:
            return (step + 1) / warmup
        spent = min(1.0, spent)
        # What the warm-up took, as if every step took alike: exact for a budget in steps, and for one in tokens or
        # minutes no moment has to be remembered, so that a run that is resumed has the same rates.
        warm = spent * warmup / step if warmup else 0.0
        after = (spent - warm) / (1.0 - warm) if warm < 1.0 else 1.0
        return self.share(step + 1, max(1, warmup), after)

    def share(self, step: int, warmup: int, spent: float) -> float:
        """After the warm-up; step from 1, spent from 0 to 1: of the budget that the warm-up left."""
        raise NotImplementedError


class Falling(Schedule):
    """Abstract: from 1 to a floor at the end of the budget."""

    class Config(Schedule.Config):
        floor: float = Field(default=0.1, ge=0, le=1)
        """The share of the peak at the end."""

    config: Falling.Config

    def share(self, step: int, warmup: int, spent: float) -> float:
        return self.config.floor + (1 - self.config.floor) * self.fall(spent)

    def fall(self, spent: float) -> float:
        """From 1 to 0."""
        raise NotImplementedError


class Cosine(Falling):
    """Half a cosine (Loshchilov and Hutter 2017, eq. 5, without restarts)."""

    class Config(Falling.Config, tag="cosine"):
        pass

    def fall(self, spent: float) -> float:
        return (1 + math.cos(math.pi * spent)) / 2


class Linear(Falling):
    class Config(Falling.Config, tag="linear"):
        pass

    def fall(self, spent: float) -> float:
        return 1 - spent


class InverseSqrt(Schedule):
    """√(warmup/step) (Vaswani et al. 2017, eq. 3): independent of the budget."""

    class Config(Schedule.Config, tag="inverse_sqrt"):
        pass

    def share(self, step: int, warmup: int, spent: float) -> float:
        return math.sqrt(warmup / max(step, warmup))


class Constant(Schedule):
    class Config(Schedule.Config, tag="constant"):
        pass

    def share(self, step: int, warmup: int, spent: float) -> float:
        return 1.0
