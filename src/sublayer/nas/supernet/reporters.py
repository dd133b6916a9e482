"""What a search says while it runs; this one says nothing, front ends build on it."""

from __future__ import annotations

from typing import Any

from sublayer.nas.supernet.searcher import Searcher


class ProgressReporter:
    def begin(self, seed: int, searcher: Searcher) -> None:
        """A seed is searched from here."""

    def step(self, searcher: Searcher, line: dict[str, Any]) -> None:
        """After every step; `line` is the last one of metrics."""

    def found(self, result: dict[str, Any]) -> None:
        """A seed has ended."""

    def retrain(self, name: str, layout: str, number: int, count: int) -> None:
        """A run begins, the `number`-th of `count`."""

    def scored(self, score: dict[str, Any]) -> None:
        """A run has ended."""

    def stop(self) -> None: ...
