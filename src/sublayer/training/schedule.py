"""Schedules: what share of the highest learning rate a step takes; a function of step and budget, so not saved."""

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
        """The share at a step, counted from 0, of which `warmup` rise linearly; `spent` is the share of the budget."""
        rise = min(1.0, (step + 1) / warmup) if warmup else 1.0
        return rise * self.share(step + 1, max(1, warmup), min(1.0, spent))

    def share(self, step: int, warmup: int, spent: float) -> float:
        """After the warm-up; step from 1, spent from 0 to 1."""
        raise NotImplementedError


class Falling(Schedule):
    """Abstract: from 1 to a floor at the end of the budget."""

    class Config(Schedule.Config):
        floor: float = Field(default=0.1, ge=0, le=1)
        """The share that is left at the end."""

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
