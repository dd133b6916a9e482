"""Search on this device: what candidates take is predicted from its table, what they promise is counted or scored."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

from sublayer import executors
from sublayer.data import Dataset
from sublayer.measurement import Predictor, Reading, Setting, measure
from sublayer.nas import proxies
from sublayer.nas.explore import Tell
from sublayer.nas.proxies.scoring import score_all
from sublayer.nas.search import DEFAULT, search
from sublayer.nas.space import Space
from sublayer.nas.train_front import train_best
from sublayer.nas.trial import COUNTED, UNITS, Figures, Objective, counted, read_limits, read_objectives, weights
from sublayer.nn.model import Model
from sublayer.runs.wording import plural
from sublayer.training import TrainConfig

log = logging.getLogger("sublayer.nas")

LEARNED, CALIBRATED = 96, 20
"""Candidates drawn before the search: those whose sublayers are measured, and those of them that are measured whole."""
SCORED = TrainConfig(batch=8, length=64)
"""The batches that a proxy looks at."""

STEPS = 16
"""Of the short training, where that is the proxy."""

Say = Callable[[str], None]
"""Hears what goes on besides the search itself."""


def search_here(
    space: Space,
    out: Path | str,
    *,
    setting: Setting | None = None,
    text: Dataset | None = None,
    objectives: str | Sequence[str | Objective] = DEFAULT,
    limits: Mapping[str, str | float | None] | None = None,
    train: int = 0,
    training: TrainConfig | None = None,
    pool: executors.Pool | None = None,
    plugins: Sequence[str] = (),
    seconds: float = 3.0,
    say: Say = lambda what: None,
    tell: Tell = lambda progress: None,
    **how: Any,
) -> dict[str, Any]:
    """Search a space under limits on this device, measure the front, and train the best `train` of it on a text.

    pool: where proxies are scored and models trained; measured is here. seconds: the longest time for one of the front.
    how: method, seed, population, iterations.
    """
    if train < 0:
        raise ValueError(f"train={train}: expected how many of the front to train, 0 or more")
    if not 0 < seconds < float("inf"):
        raise ValueError(f"seconds={seconds:g}: repeats take time, and have to end; give a number above 0")
    if train and text is None:
        raise ValueError(f"train={train}: there is no text to train on; add --data FILE")
    settled, wanted = (setting or Setting()).settled(), read_objectives(objectives)
    needed = {one.name for one in wanted} | set(read_limits(limits or {}))
    notes: dict[str, Any] = {"setting": settled.dump()}
    stages, heard, prepare = [], [], _nothing
    with ExitStack() as stack:
        if needed & UNITS.keys():
            predictor = stack.enter_context(Predictor(settled, plugins=plugins))
            notes["device"] = predictor.table.device
            foresight = LatencyStage(predictor, read_limits(limits or {}), say)
            prepare = partial(foresight.begin, space)
            stages, heard = [weights, foresight.predict], [foresight.learn]
        if others := sorted(needed - {*COUNTED, *UNITS}):
            notes["text"] = None if text is None else text.hash
            promise = ProxyStage(others, text, how.get("seed", 0), pool or executors.pool(), say)
            stages, heard = [*stages, promise.score], [*heard, promise.learn]

        def ahead(configs: list[Model.Config]) -> None:
            for hear in heard:
                hear(configs)

        result = search(
            space,
            stages,
            out,
            objectives=wanted,
            limits=limits,
            length=settled.length,
            memory=settled.memory,
            notes=notes,
            remeasure=_measuring(settled, seconds, plugins, say) if "device" in notes else None,
            tell=tell,
            ahead=ahead,
            prepare=prepare,
            **how,
        )
    if train:
        assert text is not None
        result = train_best(out, result, train, text, training or TrainConfig(), pool or executors.pool(), say)
    return result


def fit(space: Space, text: Dataset | None, changes: Mapping[str, Any]) -> Space:
    """The space with the vocabulary of the text, which no change may contradict."""
    if text is None:
        return space
    if changes.get("vocab", text.vocab) != text.vocab:
        raise ValueError(f"vocab={changes['vocab']}: the text has {text.vocab:,} tokens; leave vocab out")
    return space.fitted(text.vocab)


class LatencyStage:
    """A predictor for candidates within limits: what is too large by its weights alone is never measured."""

    def __init__(self, predictor: Predictor, limits: Mapping[str, float], say: Say) -> None:
        self.predictor, self.limits, self.say = predictor, limits, say
        self._count = counted()

    def begin(self, space: Space) -> None:
        """Learn from candidates drawn at random, and calibrate on some of them."""
        rng = Random(0)
        drawn = (space.candidate(space.sample(rng)) for _ in range(10 * LEARNED))
        configs = [one.config for one in drawn if one is not None]
        first = ([config for config in configs if self.fits(config)] or configs)[:LEARNED]
        self.predictor.learn(first, self._told("sublayers"))
        self.predictor.calibrate(first[:CALIBRATED], self._told("models"))

    def learn(self, configs: Sequence[Model.Config]) -> None:
        self.predictor.learn([config for config in configs if self.fits(config)], self._told("sublayers"))

    def predict(self, config: Model.Config) -> Figures:
        estimate = self.predictor.predict(config)
        return {"latency": estimate.latency, "memory": estimate.memory}

    def fits(self, config: Model.Config) -> bool:
        figures = {**self._count(config), **weights(config)}
        return all(figures.get(name, 0) <= most for name, most in self.limits.items())

    def _told(self, what: str) -> Callable[[int, int], None]:
        return lambda done, total: self.say(f"measuring {what} on this device: {done} of {total}")


class ProxyStage:
    """Proxies of candidates, scored for a generation at a time, wherever the pool does its work."""

    def __init__(self, names: Sequence[str], text: Dataset | None, seed: int, pool: executors.Pool, say: Say) -> None:
        for name in names:
            if proxies.find(name).needs != "config" and text is None:
                raise ValueError(f"{name}: this proxy looks at a text; add --data FILE")
        self.names, self.text, self.seed, self.pool, self.say = list(names), text, seed, pool, say
        self._known: dict[str, Figures] = {}

    def learn(self, configs: Sequence[Model.Config]) -> None:
        new = {config.hash: config for config in configs if config.hash not in self._known}
        self.say(f"scoring {plural(len(new), 'candidate')} by {', '.join(self.names)}")
        tasks = [self._task(config) for config in new.values()]
        hashes = list(new)
        for index, found in self.pool.run(score_all, tasks):
            told = {name: float("nan") if score is None else score for name, score in found["scores"].items()}
            self._known[hashes[index]] = told

    def score(self, config: Model.Config) -> Figures:
        if config.hash not in self._known:
            self.learn([config])
        return self._known[config.hash]

    def _task(self, config: Model.Config) -> dict[str, Any]:
        data = None if self.text is None else self.text.config.dump()
        how = {"train": SCORED.dump(), "seed": self.seed, "steps": STEPS, "number": 0}
        return {"model": config.dump(), "data": data, "proxies": self.names, **how}


def _nothing() -> None: ...


def _measuring(setting: Setting, seconds: float, plugins: Sequence[str], say: Say) -> Callable[[Model.Config], Reading]:
    def read(config: Model.Config) -> Reading:
        say(f"measuring {next(iter(config.stacks.values())).layout} at {config.dim}")
        reading = measure([config], setting, seconds=seconds, plugins=plugins)[0]
        if reading.noise:
            log.warning("%s", reading.noise)
        return reading

    return read
