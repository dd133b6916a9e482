"""Study: a sample of a space, scored by every proxy, then trained for a small budget; how well each proxy ranks it.

DIR/proxies.json    the request
DIR/runs/NNNN       the models' runs
DIR/scores.jsonl    a line of scores for each model; latency.jsonl has their latencies, if measured
DIR/table.csv       a row for each model
DIR/ranking.json    how well each proxy ranks the models
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
from sublayer.measurement import Setting, measure
from sublayer.measurement.quiet import AGAIN, WAIT, require_quiet
from sublayer.nas.explore import empty
from sublayer.nas.proxies import table
from sublayer.nas.proxies.base import find, names
from sublayer.nas.proxies.judging import judge
from sublayer.nas.proxies.records import ProxyRanking
from sublayer.nas.proxies.scoring import score_all
from sublayer.nas.space import Space
from sublayer.nn.config import ConfigError
from sublayer.nn.model import Model
from sublayer.runs import Run, sealed_json
from sublayer.runs.lines import Lines
from sublayer.runs.metrics import comparable
from sublayer.training import TrainConfig

REQUEST = "proxies.json"
TRIES = 500
"""Draws in a row without a new model, after which the space counts as used up."""
STEPS = 200
"""Training steps of each model, unless train.steps is given."""
MOST = 100_000
"""Largest number of models."""


@dataclass(frozen=True)
class StudyRequest:
    """The same request continues a study, with more models if `models` is larger."""

    space: Space
    data: DataConfig
    train: TrainConfig
    models: int = 20
    seed: int = 0
    """Of the sample, and of the weights and batches that proxies read."""
    proxies: tuple[str, ...] = ()
    """Names; all if empty."""
    steps: int = 20
    """Of the proxy that trains for a few steps."""

    def __post_init__(self) -> None:
        for name in self.proxies:
            find(name)
        if not 3 <= self.models <= MOST:
            raise ValueError(f"models={self.models}: expected 3 to {MOST:,}, as fewer have no order to compare")
        if not 0 <= self.seed < 2**63:
            raise ValueError(f"seed={self.seed}: expected 0 to {2**63 - 1:,}")

    def dump(self) -> dict[str, Any]:
        return {
            "space": self.space.dump(),
            "data": self.data.dump(),
            "train": self.train.dump(),
            "seed": self.seed,
            "proxies": list(self.proxies or names()),
            "steps": self.steps,
        }


class StudyReporter:
    """Who is informed while a study runs; this one is silent."""

    def begin(self, phase: str, total: int) -> None:
        """A phase begins: scores, trainings or latencies, of `total` models."""

    def done(self, number: int) -> None:
        """A model is done, now or in an earlier call."""


def run_study(
    out: Path | str,
    request: StudyRequest,
    pool: Pool,
    *,
    latency: bool = False,
    plugins: Sequence[str] = (),
    reporter: StudyReporter | None = None,
) -> ProxyRanking:
    """Score, train and, if asked to, measure every model, and rank the proxies; finished work is not repeated."""
    study, reporter = Study.begin(out, request), reporter or StudyReporter()
    reporter.begin("scores", request.models)
    study.score(pool, reporter)
    reporter.begin("trainings", request.models)
    study.train(pool, reporter)
    ranking = study.finish()
    if not latency:
        return ranking
    setting = Setting(length=request.train.length)
    reporter.begin("latencies", request.models)
    study.measure(lambda config: _latency(config, setting, plugins), reporter)
    return study.finish()


def _latency(config: Model.Config, setting: Setting, plugins: Sequence[str]) -> float:
    (found,) = measure([config], setting, wait=WAIT, plugins=plugins)
    return require_quiet(found, WAIT, AGAIN).latency


@dataclass(frozen=True)
class Study:
    path: Path
    request: StudyRequest

    @classmethod
    def begin(cls, out: Path | str, request: StudyRequest) -> Study:
        """In a new folder, or one with the same request."""
        study = cls(Path(out), request)
        study.sample()
        Windows(
            prepare(request.data).train, request.train.batch, request.train.length
        )  # refuses a text that is too short
        with study.held():
            sealed_json.ask(
                study.path / REQUEST, {**request.dump(), "models": request.models}, "study", free=("models",)
            )
        return study

    def sample(self) -> list[Model.Config]:
        """Different models of the space, with the text's vocabulary. A larger sample begins with the smaller one."""
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
            "add choices"
        )

    def score(self, pool: Pool, reporter: StudyReporter | None = None) -> None:
        """Every proxy of every model that has no scores yet."""
        reporter = reporter or StudyReporter()
        with self.held():
            configs, done = self.sample(), {row["number"] for row in self._scores}
            for number in sorted(done):
                reporter.done(number)
            tasks = [self._task(number, config) for number, config in enumerate(configs) if number not in done]
            for _, row in pool.run(score_all, tasks):
                self._scores.add(row)
                reporter.done(row["number"])

    def train(self, pool: Pool, reporter: StudyReporter | None = None) -> None:
        """Every model, in a run of its own."""
        reporter = reporter or StudyReporter()
        with self.held():
            request = self.request.dump()
            same = {"data": request["data"], "train": request["train"]}
            models = (
                {"model": config.dump(), "out": str(self._run(n)), **same} for n, config in enumerate(self.sample())
            )
            for number, _ in train_all(pool, models):
                reporter.done(number)

    def measure(self, latency: Callable[[Model.Config], float], reporter: StudyReporter | None = None) -> None:
        """The latency in seconds of each model that was not measured yet."""
        reporter = reporter or StudyReporter()
        with self.held():
            known = {row["number"] for row in self._latency}
            for number, config in enumerate(self.sample()):
                if number not in known:
                    self._latency.add({"number": number, "latency": latency(config)})
                reporter.done(number)

    def finish(self) -> ProxyRanking:
        """Write table.csv and ranking.json, and return the ranking."""
        with self.held():
            rows = sorted(
                (row for row in self._scores if row["number"] < self.request.models), key=itemgetter("number")
            )
            table.write(self.path / "table.csv", self._columns, [self._cells(row) for row in rows])
            (models,) = table.read(self.path / "table.csv")
            seconds = {name: sum(row["seconds"][name] for row in rows) / len(rows) for name in self._names}
            found = judge([replace(models, seconds=seconds)], str(self.path))
            ranking = found.model_copy(update={"train": self.request.train.dump()})
            ranking.write(self.path / "ranking.json")
        return ranking

    @contextmanager
    def held(self) -> Iterator[None]:
        """Only one process at a time works on a study."""
        with sealed_json.held(self.path, "at work there"):
            _mend(self._scores, ("number", "scores", "seconds"))
            _mend(self._latency, ("number", "latency"))
            yield

    def _task(self, number: int, config: Model.Config) -> dict[str, Any]:
        """Plain data, for another process."""
        request = self.request.dump()
        same = {name: request[name] for name in ("data", "train", "seed", "proxies", "steps")}
        return {"number": number, "model": config.dump(), **same}

    def _cells(self, row: dict[str, Any]) -> dict[str, Any]:
        """A row of the table; a model that diverged has no perplexity."""
        run = Run.open(self._run(row["number"]))
        losses = [line["valid_loss"] for line in comparable(run.metrics)]
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
                    "held is computed again"
                )
