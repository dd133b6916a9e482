"""`compare`: resolve the request, train every variant with every seed, score, measure, write the table."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from sublayer import executors
from sublayer.comparison.folder import TABLE, ComparisonFolder
from sublayer.comparison.records import ComparisonTable, HeldOutScore, MeasuredModel, StepMemory
from sublayer.comparison.request import ComparisonRequest, data_config, predicts_text, resolve
from sublayer.comparison.result import SeedResult
from sublayer.comparison.step_memory import step_memory
from sublayer.comparison.table import tabulate
from sublayer.comparison.tuning import tune
from sublayer.comparison.variant import Variant, slugs
from sublayer.data import Data
from sublayer.evaluation import own_text
from sublayer.executors.trainings import train_all
from sublayer.keys import split
from sublayer.measurement import Reading, Setting, race
from sublayer.measurement.quiet import AGAIN, WAIT, require_quiet
from sublayer.nn.model import Model
from sublayer.plugins import load_installed_plugins
from sublayer.runs import Run
from sublayer.trained import Trained

log = logging.getLogger("sublayer.comparison")

OnStart = Callable[[ComparisonRequest, ComparisonFolder], Any]
"""Called with the resolved request, before anything is trained."""
OnPhase = Callable[[str, int, int], Any]
"""Called with the name of a phase after the trainings, and how many of how many are done."""
Measure = Callable[[Sequence[Model.Config], Setting], Sequence[Reading]]
MeasureStep = Callable[[Run], int | None]
"""From a run to the bytes that its training needs."""


def compare(
    variants: Sequence[str | Model.Config | Variant],
    data: str | Data.Config = "stdlib",
    out: str | Path = "",
    changes: Mapping[str, Any] | None = None,
    *,
    seeds: Sequence[int] = (0, 1, 2),
    equal_params: int | str | None = None,
    lrs: Sequence[float] = (),
    measure: Measure | bool | None = True,
    setting: Setting | None = None,
    pool: executors.Pool | None = None,
    plugins: Sequence[str] = (),
    on_start: OnStart = lambda request, folder: None,
    on_phase: OnPhase = lambda phase, done, total: None,
) -> ComparisonTable:
    """Train variants alike, with each of the seeds, and compare them; continues a comparison that was begun before.

    out: the folder; comparisons/FIRST-SECOND-… if empty. changes: for all variants, the budget among them:
    {"dim": 128, "train.tokens": 1_000_000}. equal_params: a number, or "first" for as many as the first variant has;
    widths are solved for. lrs: each is tried with the first seed, and each variant takes its best. measure: whether
    latency and memory are measured, or the function that measures them. plugins: modules that a measuring process
    imports. Memory of training is measured where `measure` is True.
    """
    load_installed_plugins()
    model, of = split(changes or {})
    text = data_config(data, of["data"])
    several = [Variant.of(variant) for variant in variants]
    folder = ComparisonFolder(Path(out or f"comparisons/{'-'.join(slugs(several))[:80]}"))
    how: dict[str, Any] = {"seeds": seeds, "equal_params": equal_params, "lrs": lrs}
    request = resolve(several, text, folder.path, model, of["train"], **how)
    with folder.held():
        request = request.called_as(folder.read_asked(), [one.name for one in several if not one.words])
        folder.ask(request.dump())
        on_start(request, folder)
        results = train_variants(request, folder, pool or executors.pool())
        measured = measure_variants(request, folder, _measuring(measure, plugins), setting, on_phase)
        steps = measure_steps(request, folder, results, _measuring_steps(measure, plugins), on_phase)
        scored = itertools.count()

        def score(result: SeedResult) -> HeldOutScore | None:
            on_phase("scoring the test split", next(scored), len(request.variants) * len(request.seeds))
            return score_test(folder, result)

        table = tabulate(request, results, score, measured, steps)
        table.write(folder.path / TABLE)
    return table


def train_variants(
    request: ComparisonRequest, folder: ComparisonFolder, pool: executors.Pool
) -> list[dict[int, SeedResult]]:
    """Every variant with every seed."""
    rates = tune(request, folder, pool)
    wanted = [(n, seed) for seed in request.seeds for n in range(len(request.variants))]
    tasks = []
    for n, seed in wanted:
        variant = request.variants[n]
        tasks.append(request.task(variant, folder.run(variant.slug, seed), seed, rates[n]))
    runs = dict(train_all(pool, tasks))
    found = {pair: SeedResult(runs[index]) for index, pair in enumerate(wanted)}
    return [{seed: found[n, seed] for seed in request.seeds} for n in range(len(request.variants))]


def score_test(folder: ComparisonFolder, result: SeedResult) -> HeldOutScore | None:
    """On as much of the test split as the validation split was scored on; None for models that do not write, and where
    the test split is empty."""
    asked = result.run.request

    def compute() -> dict[str, Any] | None:
        if not result.run.model_config.writes:
            return None
        text, trained = own_text(result.run), Trained.load(result.run.path)
        return None if text.stands_in else trained.evaluate(text, limit=asked.eval_tokens, carry=asked.carry)

    return folder.figure(f"test {result.run.path.name}", HeldOutScore, compute)


def measure_variants(
    request: ComparisonRequest,
    folder: ComparisonFolder,
    measure: Measure | None,
    setting: Setting | None,
    on_phase: OnPhase,
) -> list[MeasuredModel | None]:
    """Latency and memory on this machine, all models in one race; none of them if the machine is too busy.

    What is not measured is not stored, so the same command tries again.
    """
    models = [variant.model for variant in request.variants]
    if measure is None:
        return [None] * len(models)
    length = min(variant.train.length for variant in request.variants)
    scores = predicts_text(models[0])
    how = setting or Setting(task="segment" if scores else "prefill", length=length)

    @lru_cache(maxsize=1)
    def readings() -> Sequence[Reading]:
        """Of all models, as soon as the first is missing."""
        on_phase("measuring the models in turn", 0, len(models))
        return [require_quiet(one, WAIT, AGAIN) for one in measure(models, how)]

    try:
        return [
            folder.figure(f"{how.hash[:12]} {variant.slug}", MeasuredModel, lambda n=n: readings()[n].dump())
            for n, variant in enumerate(request.variants)
        ]
    except ValueError as error:
        log.warning("latency and memory were not measured: %s", error)
        return [None] * len(models)


def measure_steps(
    request: ComparisonRequest,
    folder: ComparisonFolder,
    results: Sequence[Mapping[int, SeedResult]],
    measure: MeasureStep | None,
    on_phase: OnPhase,
) -> list[StepMemory | None]:
    """Memory of training on this machine, each variant in a process of its own, as it was trained with its first seed.

    What is not measured is not stored, so the same command tries again.
    """
    if measure is None:
        return [None] * len(results)
    found: list[StepMemory | None] = []
    for n, (variant, by_seed) in enumerate(zip(request.variants, results, strict=True)):
        on_phase("measuring the memory of training", n, len(results))
        run = next(iter(by_seed.values())).run
        try:
            found.append(folder.figure(f"step {variant.slug}", StepMemory, lambda run=run: {"memory": measure(run)}))
        except ValueError as error:
            log.warning("%s: the memory of training was not measured: %s", variant.name, error)
            found.append(None)
    return found


def _measuring_steps(measure: Measure | bool | None, plugins: Sequence[str]) -> MeasureStep | None:
    return (lambda run: step_memory(run, plugins)) if measure is True else None


def _measuring(measure: Measure | bool | None, plugins: Sequence[str]) -> Measure | None:
    if callable(measure):
        return measure
    how: dict[str, Any] = {"wait": WAIT, "alone": False, "plugins": plugins}  # nobody reads high-water marks
    return (lambda models, setting: race(models, setting, **how).readings) if measure else None
