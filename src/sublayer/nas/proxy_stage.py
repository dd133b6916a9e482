"""Proxies of candidates, scored for a generation at a time, wherever the pool runs its tasks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sublayer.data import Dataset
from sublayer.executors import Pool
from sublayer.nas import proxies
from sublayer.nas.proxies.scoring import score_all
from sublayer.nas.reporters import SearchReporter
from sublayer.nas.stages import Stage
from sublayer.nas.trial import Figures
from sublayer.nn.model import Model
from sublayer.training import TrainConfig

BATCHES = TrainConfig(batch=8, length=64)
"""The size of the batches that proxies read."""
STEPS = 16
"""Steps of the short training, where that is the proxy."""


class ProxyStage(Stage):
    def __init__(
        self, names: Sequence[str], text: Dataset | None, seed: int, pool: Pool, reporter: SearchReporter
    ) -> None:
        for name in names:
            if proxies.find(name).needs != "config" and text is None:
                raise ValueError(f"{name}: this proxy reads a text; add --data FILE")
        self.names, self.text, self.seed, self.pool, self.reporter = list(names), text, seed, pool, reporter
        self._scores: dict[str, Figures] = {}

    def look_ahead(self, configs: Sequence[Model.Config]) -> None:
        new = {config.hash: config for config in configs if config.hash not in self._scores}
        phase, hashes = f"scoring candidates by {', '.join(self.names)}", list(new)
        self.reporter.phase(phase, 0, len(new))
        scored = self.pool.run(score_all, [self._task(config) for config in new.values()])
        for done, (index, found) in enumerate(scored, 1):
            self.reporter.phase(phase, done, len(new))
            scores = found["scores"]
            self._scores[hashes[index]] = {
                name: float("nan") if score is None else score for name, score in scores.items()
            }

    def figures(self, config: Model.Config) -> Figures:
        if config.hash not in self._scores:
            self.look_ahead([config])
        return self._scores[config.hash]

    def _task(self, config: Model.Config) -> dict[str, Any]:
        """Plain data, for another process."""
        data = None if self.text is None else self.text.config.dump()
        how = {"train": BATCHES.dump(), "seed": self.seed, "steps": STEPS, "number": 0}
        return {"model": config.dump(), "data": data, "proxies": self.names, **how}
