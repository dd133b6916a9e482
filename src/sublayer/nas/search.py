"""Search: candidates of a space, evaluated one by one; the front of the best, measured; some of them trained.

A killed search is continued by the same call: the method proposes the same candidates, those in the journal are
recalled, and the rest is evaluated. No trial is lost or repeated, and the front is the same (docs/decisions/0008).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from random import Random

from sublayer import executors
from sublayer.data import Dataset
from sublayer.measurement import Setting
from sublayer.measurement.quiet import WAIT
from sublayer.nas import methods
from sublayer.nas.evolution import Method
from sublayer.nas.explore import explore
from sublayer.nas.folder import SearchFolder
from sublayer.nas.front import carry_over, evenly, find_front, is_measured, judged
from sublayer.nas.goals import read_goals, read_limits
from sublayer.nas.records import CountedFor, SearchGoal, SearchRequest, SearchResult
from sublayer.nas.reporters import SearchReporter
from sublayer.nas.smallest import refuse_too_small, smallest
from sublayer.nas.sources import Meter, Sources, on_this_device
from sublayer.nas.space import Space
from sublayer.nas.stages import CountStage, Evaluator
from sublayer.nas.study import Journal
from sublayer.nas.train_front import train_front
from sublayer.nn.model import Model
from sublayer.training import TrainConfig

DEFAULT = "decoder_params,latency,memory"
STUDY = "search"
"""The name of the Optuna study in the journal."""
MEASURED_MODELS = 15
"""Models of the front that are measured, if there are so many."""
MOST = 1_000_000
"""Largest population, number of iterations, and number of models to train."""


def search(
    space: Space,
    out: Path | str,
    *,
    objectives: str | Sequence[str | SearchGoal] = DEFAULT,
    limits: Mapping[str, str | float | None] | None = None,
    method: str = "evolution",
    seed: int = 0,
    population: int = 100,
    iterations: int = 30,
    setting: Setting | None = None,
    seconds: float = 3.0,
    text: Dataset | None = None,
    train: int = 0,
    training: TrainConfig | None = None,
    pool: executors.Pool | None = None,
    plugins: Sequence[str] = (),
    sources: Sources | None = None,
    reporter: SearchReporter | None = None,
    budget: Model.Config | None = None,
    wait: float = WAIT,
    remeasure: bool = False,
) -> SearchResult:
    """Search a space under limits, measure the front, train the best `train` of it; the result is in out/front.json.

    objectives: two or three figures, latency and memory of this device or proxies among them. limits: {"latency":
    "5ms", "params": 1e7}. setting, seconds: what is measured, and for how long at most, for a model of the front. text:
    read by proxies and trainings. pool: where proxies are scored and models trained. sources: other sources of figures
    than this device and the proxies. budget: a model whose latency is a limit, too; it is measured with the front.
    wait: seconds to wait for a quiet machine. remeasure: drop the readings stored for this device and setting first.
    """
    check_numbers(seed=seed, train=train, seconds=seconds)
    trials = count_trials(population, iterations)
    if train and text is None:
        raise ValueError(f"train={train}: there is no text to train on; add --data FILE")
    goals, most = read_goals(objectives), read_limits(limits or {})
    measured: Setting = (setting or Setting()).resolved()
    pool, reporter = pool or executors.pool(), reporter or SearchReporter()
    if sources is None:
        figures = {*(goal.name for goal in goals), *most, *(["latency"] if budget else [])}
        sources = on_this_device(
            figures,
            most,
            measured,
            text,
            seed=seed,
            seconds=seconds,
            pool=pool,
            plugins=plugins,
            reporter=reporter,
            wait=wait,
            remeasure=remeasure,
        )
    request = SearchRequest(
        space=space.dump(),
        objectives=goals,
        limits=most,
        method=method,
        seed=seed,
        population=population,
        iterations=iterations,
        counted=CountedFor(length=measured.length, memory=measured.memory),
        setting=sources.setting,
        device=sources.device,
        text=sources.text,
        budget=budget and budget.dump(),
    )
    bounded = most if budget is None else {"latency": math.inf, **most}
    folder, candidates = SearchFolder(Path(out)), begin(method, space, goals, bounded, seed, population)
    with folder.locked():
        folder.write_request(request)
        with sources:
            for stage in sources.stages:
                stage.prepare(space)
            stages = [CountStage(measured.length, measured.memory), *sources.stages]
            evaluator = Evaluator(stages, goals, most, budget)
            journal = Journal(folder.journal, STUDY, space, goals)
            progress = explore(candidates, evaluator, trials, journal, reporter)
            result = carry_over(find_front(request, progress, evaluator.limits), folder.read_result())
            result = result.model_copy(update={"disturbed": evaluator.disturbed})
            folder.write_result(result)
            if sources.meter:
                result = measure_front(result, sources.meter, folder)
        if train:
            assert text is not None
            result = train_front(result, train, text, training or TrainConfig(), folder, pool, reporter)
    return result


def measure_front(result: SearchResult, meter: Meter, folder: SearchFolder) -> SearchResult:
    """Measure models spread along the front, and the budget, in one race; unless all were measured before."""
    chosen = evenly(result.front, MEASURED_MODELS)
    budget = result.budget
    if all(is_measured(one) for one in chosen) and (budget is None or is_measured(budget)):
        return result
    asked = [*(one.config for one in chosen), *([budget.config] if budget else [])]
    found = meter.measure([Model.Config.parse(config) for config in asked])
    for one, figures in zip(chosen, found, strict=False):
        result = result.replace(one.number, measured=figures)
    if budget:
        result = result.model_copy(update={"budget": budget.model_copy(update={"measured": found[-1]})})
    result = judged(result)
    folder.write_result(result)
    return result


def begin(
    method: str, space: Space, goals: Sequence[SearchGoal], limits: Mapping[str, float], seed: int, population: int
) -> Method:
    """A method before its first candidate. Under limits it starts with the smallest one, whose children are small."""
    kind = methods.find(method)
    first = []
    if limits:
        least = smallest(space, Random(seed))
        refuse_too_small(least, limits)
        first = [least.genes]
    return kind(space, goals, seed, population, first)


def count_trials(population: int, iterations: int) -> int:
    """How many candidates evolution evaluates; other methods evaluate as many."""
    if not 5 <= population <= MOST or not 0 <= iterations <= MOST:
        raise ValueError(
            f"population={population}, iterations={iterations}: expected 5 to {MOST:,}, and 0 to {MOST:,}; the paper "
            "has 100 and 30"
        )
    return population + iterations * 2 * round(0.4 * population)


def check_numbers(seed: int, train: int, seconds: float) -> None:
    """Refuse numbers that no search can have."""
    if not 0 <= train <= MOST:
        raise ValueError(f"train={train}: expected the number of models of the front to train, 0 to {MOST:,}")
    if not 0 < seconds < float("inf"):
        raise ValueError(f"seconds={seconds:g}: expected a finite time above 0 for each model, such as 3")
    if not -(2**63) <= seed < 2**63:
        raise ValueError(f"seed={seed}: expected a 64-bit integer, such as 0")
