"""Who is informed while a search runs. This reporter is silent; the command line has one that draws the front."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from sublayer.nas.records import SearchGoal
from sublayer.nas.trial import Trial


@dataclass
class SearchProgress:
    """The trials so far."""

    total: int
    """Trials planned."""
    goals: tuple[SearchGoal, ...]
    trials: list[Trial] = field(default_factory=list)
    generations: list[int] = field(default_factory=list)
    """Trials there were after each generation."""
    recalled: int = 0
    """Trials that were read from the journal instead of evaluated."""


class SearchReporter:
    def activity(self, text: str) -> None:
        """What the search does now, within a phase."""

    def phase(self, name: str, done: int, total: int) -> None:
        """How far a phase is, besides evaluating candidates; the first call begins it."""

    def timed_phase(self, name: str, seconds: float) -> None:
        """A phase begins that takes about so many seconds."""

    def trainings(self, runs: Sequence[Path]) -> None:
        """The trainings of these runs begin."""

    def progress(self, progress: SearchProgress) -> None:
        """After every trial."""
