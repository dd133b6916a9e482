"""Study: a sample of a space trained for a small budget, every proxy of it at the start, and how well each ranks it.

DIR/proxies.json    what was asked
DIR/runs/NNNN       the models' runs, of the ordinary kind
DIR/scores.jsonl    the scores of each model, as they were found; latency.jsonl its seconds, where they are measured
DIR/table.csv       a row a model
DIR/ranking.json    the figures of every proxy
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from operator import itemgetter
from pathlib import Path
from random import Random
from typing import Any

from sublayer.data import DataConfig, Windows, prepare
from sublayer.executors import Pool
from sublayer.executors.trainings import train_all, why_diverged
from sublayer.nas.explore import empty
from sublayer.nas.proxies import table
from sublayer.nas.proxies.base import find, names
from sublayer.nas.proxies.judging import judge
from sublayer.nas.proxies.scoring import score_all
from sublayer.nas.space import Space
from sublayer.nn.config import ConfigError
from sublayer.nn.model import Model
from sublayer.runs import Run, sealed_json
from sublayer.runs.lines import Lines
from sublayer.training import TrainConfig

ASKED = "proxies.json"
Tell = Callable[[int], None]
"""Hears the number of each model that is done."""
TRIES = 500
"""Draws in a row that bring nothing new, after which a space is thought to hold no more."""


@dataclass(frozen=True)
class Request:
    """What is asked; the same request goes on with a study, with more models if so many are asked for."""

    space: Space
    data: DataConfig
    train: TrainConfig
    models: int = 20
    seed: int = 0
    """Of the sample, and of the weights and the batches that proxies look at."""
    proxies: tuple[str, ...] = ()
    """None: all."""
    steps: int = 20
    """Of short training."""

    def __post_init__(self) -> None:
        for name in self.proxies:
            find(name)
        if self.models < 3:
            raise ValueError(f"models={self.models}: an order needs at least 3")

    def dump(self) -> dict[str, Any]:
        return {
            "space": self.space.dump(),
            "data": self.data.dump(),
            "train": self.train.dump(),
            "seed": self.seed,
            "proxies": list(self.proxies or names()),
            "steps": self.steps,
        }


@dataclass(frozen=True)
class Study:
    path: Path
    request: Request

    @classmethod
    def begin(cls, out: Path | str, request: Request) -> Study:
        """A new folder, or one where the same was asked."""
        study = cls(Path(out), request)
        study.sample()
        Windows(prepare(request.data).train, request.train.batch, request.train.length)  # says if the text is too short
        with study.held():
            sealed_json.ask(study.path / ASKED, {**request.dump(), "models": request.models}, "study", free=("models",))
        return study

    def sample(self) -> list[Model.Config]:
        """Different models of the space, fitted to the text; the same for the same seed, however many."""
        data = prepare(self.request.data)
        space = self.request.space.fitted(data.vocab + self.request.space.base.extra_ids)
        rng, found, idle = Random(self.request.seed), dict[str, Model.Config](), 0
        while len(found) < self.request.models and idle < TRIES:
            made = space.candidate(space.sample(rng))
            idle = idle + 1 if made is None or made.hash in found else 0
            if made is not None:
                found.setdefault(made.hash, made.config)
        if len(found) == self.request.models:
            return list(found.values())
        if not found:
            raise ConfigError(empty(space))
        raise ConfigError(
            f"models={self.request.models}: {len(found)} different ones were found in the space; ask for fewer, or "
            "give it more to choose from"
        )

    def score(self, pool: Pool, tell: Tell = lambda number: None) -> None:
        """Every proxy of every model; `tell` hears of each that is done, those done before first."""
        with self.held():
            configs, done = self.sample(), {row["number"] for row in self._scores}
            for number in sorted(done):
                tell(number)
            tasks = [self._task(number, config) for number, config in enumerate(configs) if number not in done]
            for _, row in pool.run(score_all, tasks):
                self._scores.add(row)
                tell(row["number"])

    def train(self, pool: Pool, tell: Tell = lambda number: None) -> None:
        """Every model, in a run of its own."""
        with self.held():
            asked = self.request.dump()
            told = {"data": asked["data"], "train": asked["train"]}
            models = (
                {"model": config.dump(), "out": str(self._run(n)), **told} for n, config in enumerate(self.sample())
            )
            for number, _ in train_all(pool, models):
                tell(number)

    def measure(self, latency: Callable[[Model.Config], float], tell: Tell = lambda number: None) -> None:
        """Seconds of each model, one after another, where they are not known yet."""
        with self.held():
            known = {row["number"] for row in self._latency}
            for number, config in enumerate(self.sample()):
                if number not in known:
                    self._latency.add({"number": number, "latency": latency(config)})
                tell(number)

    def finish(self) -> dict[str, Any]:
        """Write table.csv and ranking.json, and tell the ranking."""
        with self.held():
            rows = sorted(
                (row for row in self._scores if row["number"] < self.request.models), key=itemgetter("number")
            )
            table.write(self.path / "table.csv", self._columns, [self._cells(row) for row in rows])
            (models,) = table.read(self.path / "table.csv")
            seconds = {name: sum(row["seconds"][name] for row in rows) / len(rows) for name in self._names}
            ranking = judge([replace(models, seconds=seconds)], str(self.path))
            ranking["train"] = self.request.train.dump()
            sealed_json.write(self.path / "ranking.json", ranking)
        return ranking

    @contextmanager
    def held(self) -> Iterator[None]:
        """One process at a time works on a study."""
        with sealed_json.held(self.path, "at work there"):
            _mend(self._scores, ("number", "scores", "seconds"))
            _mend(self._latency, ("number", "latency"))
            yield

    def _task(self, number: int, config: Model.Config) -> dict[str, Any]:
        """For another process: plain data."""
        asked = self.request.dump()
        told = {name: asked[name] for name in ("data", "train", "seed", "proxies", "steps")}
        return {"number": number, "model": config.dump(), **told}

    def _cells(self, row: dict[str, Any]) -> dict[str, Any]:
        """A row of the table; a model that diverged has no perplexity."""
        run = Run.open(self._run(row["number"]))
        losses = [line["valid_loss"] for line in run.metrics if "valid_loss" in line]
        if not losses and not why_diverged(run):
            raise ValueError(f"{run.path}: no loss on valid was measured; use a text with more of it")
        loss = None if why_diverged(run) else min(losses)
        latency = {line["number"]: line["latency"] * 1000 for line in self._latency}
        return {
            "set": "sample",
            "name": run.path.name,
            "layout": " → ".join(stack.layout for stack in run.model_config.stacks.values()),
            "dim": run.model_config.dim,
            **row["scores"],
            "loss": loss,
            "ppl": None if loss is None else math.exp(min(loss, 700.0)),
            "latency_ms": latency.get(row["number"]),
        }

    def _run(self, number: int) -> Path:
        return self.path.absolute() / "runs" / f"{number:04d}"

    @property
    def _names(self) -> Sequence[str]:
        return self.request.proxies or names()

    @property
    def _columns(self) -> list[str]:
        return ["set", "name", "layout", "dim", *self._names, "loss", "ppl", "latency_ms"]

    @property
    def _scores(self) -> Lines:
        return Lines(self.path / "scores.jsonl")

    @property
    def _latency(self) -> Lines:
        return Lines(self.path / "latency.jsonl")


def _mend(lines: Lines, needs: tuple[str, ...]) -> None:
    lines.mend()
    for line in lines:
        for name in needs:
            if name not in line:
                raise ValueError(
                    f"{lines.path}: a line has no {name}, so it was damaged or edited; remove that line, and what it "
                    "held is found anew"
                )
