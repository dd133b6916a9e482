"""Who is informed while a supernet is searched. This reporter is silent; the command line has one with a bar."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sublayer.nas.supernet.searcher import Searcher


class SupernetReporter:
    def begin(self, seed: int, searcher: Searcher) -> None:
        """The search of a seed begins, or continues."""

    def step(self, searcher: Searcher, line: dict[str, Any]) -> None:
        """After every step; `line` is the latest line of metrics."""

    def found(self, result: dict[str, Any]) -> None:
        """The search of a seed has ended."""

    def retrainings(self, names: Sequence[str]) -> None:
        """Trainings of layouts begin, by the names of their runs."""

    def scored(self, score: dict[str, Any]) -> None:
        """One of those trainings has ended."""
