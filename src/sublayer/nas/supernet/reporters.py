"""Who is informed while a supernet is searched. This reporter is silent; the command line has one with a bar."""

from __future__ import annotations

from typing import Any

from sublayer.nas.supernet.searcher import Searcher


class SupernetReporter:
    def begin(self, seed: int, searcher: Searcher) -> None:
        """The search of a seed begins, or continues."""

    def step(self, searcher: Searcher, line: dict[str, Any]) -> None:
        """After every step; `line` is the latest line of metrics."""

    def found(self, result: dict[str, Any]) -> None:
        """The search of a seed has ended."""

    def retrain(self, name: str, layout: str, number: int, count: int) -> None:
        """Training of a found layout begins, the `number`-th of `count`."""

    def scored(self, score: dict[str, Any]) -> None:
        """That training has ended."""

    def stop(self) -> None: ...
