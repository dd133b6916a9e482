"""Where a training stands, apart from its tensors: plain numbers, saved with every checkpoint."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any


@dataclass
class Progress:
    step: int = 0
    """Optimiser steps done."""
    tokens: int = 0
    """Tokens read."""
    first: float | None = None
    """The loss of the first step that asks for an answer, against which an explosion is told."""
    best: float | None = None
    """The least loss on valid."""
    best_step: int | None = None
    stale: int = 0
    """Evaluations since then."""

    def scored(self, loss: float) -> None:
        """A loss on valid at this step."""
        if self.best is None or loss < self.best:
            self.best, self.best_step, self.stale = loss, self.step, 0
        else:
            self.stale += 1

    def dump(self) -> dict[str, Any]:
        return asdict(self)
