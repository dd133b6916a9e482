"""The budget: steps, tokens or wall time, whichever is spent first."""

from __future__ import annotations

import time

from sublayer.runs import Progress
from sublayer.runs.wording import plural
from sublayer.training.config import TrainConfig


class Stopwatch:
    """Seconds of training, those of earlier processes included."""

    def __init__(self, before: float = 0.0) -> None:
        self._start = time.perf_counter() - before

    @property
    def seconds(self) -> float:
        return time.perf_counter() - self._start


class Budget:
    def __init__(self, config: TrainConfig, watch: Stopwatch) -> None:
        self.config, self.watch = config, watch

    def spent(self, progress: Progress) -> float:
        """From 0 to 1: the largest share spent of any budget."""
        config = self.config
        shares = [
            progress.step / config.steps if config.steps else 0.0,
            progress.tokens / config.tokens if config.tokens else 0.0,
            self.watch.seconds / 60 / config.minutes if config.minutes else 0.0,
        ]
        return min(1.0, max(shares))

    def over(self, progress: Progress) -> str | None:
        """Why training ends here; None if it continues."""
        if self.config.patience and progress.stale >= self.config.patience:
            return f"no better score on valid in {plural(progress.stale, 'evaluation')}"
        return "the budget is spent" if self.spent(progress) >= 1 else None
