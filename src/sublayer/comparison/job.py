"""From what a user asks to a table: settle, train, score, measure, tell."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from sublayer import executors
from sublayer.comparison.folder import TABLE, Folder
from sublayer.comparison.request import Request, settle
from sublayer.comparison.result import Result
from sublayer.comparison.table import table
from sublayer.comparison.tuning import tune
from sublayer.comparison.variant import Variant
from sublayer.data import Data
from sublayer.evaluation import own_text
from sublayer.executors.trainings import train_all
from sublayer.keys import absolute, split
from sublayer.measurement import Setting, measure
from sublayer.nn.model import Model
from sublayer.plugins import load_installed_plugins
from sublayer.runs import sealed_json
from sublayer.trained import Trained

log = logging.getLogger("sublayer.comparison")

Told = Callable[[Request, Folder], Any]
"""Hears what was settled before anything is trained."""
Measure = Callable[[Sequence[Model.Config], Setting], Sequence[Any]]


def compare(
    variants: Sequence[str | Model.Config | Variant],
    data: str | Data.Config = "stdlib",
    out: str | Path = "comparisons/comparison",
    changes: Mapping[str, Any] | None = None,
    *,
    seeds: Sequence[int] = (0, 1, 2),
    equal_params: int | str | None = None,
    lrs: Sequence[float] = (),
    measure: Measure | None = measure,
    setting: Setting | None = None,
    pool: executors.Pool | None = None,
    told: Told = lambda request, folder: None,
) -> dict[str, Any]:
    """Train variants alike, with each of the seeds, and tell them side by side; go on, if it was begun before.

    changes: for all, the budget among them: {"dim": 128, "train.tokens": 1_000_000}. equal_params: a number, or
    "first" for as many as the first variant has; widths are solved for. lrs: each is tried with the first seed, and
    each variant takes its best. measure: latency and memory; None leaves them out.
    """
    load_installed_plugins()
    model, of = split(changes or {})
    text = Data.Config.guess(absolute(data)) if isinstance(data, str) else data
    text = text.override(of["data"], "data") if of["data"] else text
    folder, several = Folder(Path(out)), [Variant.of(variant) for variant in variants]
    how: dict[str, Any] = {"seeds": seeds, "equal_params": equal_params, "lrs": lrs}
    request = settle(several, text, folder.path, model, of["train"], **how)
    with folder.held():
        folder.ask(request.dump())
        told(request, folder)
        results = trained(request, folder, pool or executors.pool())
        readings = read(request, folder, measure, setting)
        made = table(request, results, lambda result: tested(request, folder, result), readings)
        sealed_json.write(folder.path / TABLE, made)
    return made


def trained(request: Request, folder: Folder, pool: executors.Pool) -> list[dict[int, Result]]:
    """Every variant with every seed."""
    rates = tune(request, folder, pool)
    wanted = [(n, seed) for seed in request.seeds for n in range(len(request.entries))]
    tasks = []
    for n, seed in wanted:
        entry = request.entries[n]
        tasks.append(request.task(entry, folder.run(entry.slug, seed), seed, rates[n]))
    runs = dict(train_all(pool, tasks))
    found = {place: Result(runs[index]) for index, place in enumerate(wanted)}
    return [{seed: found[n, seed] for seed in request.seeds} for n in range(len(request.entries))]


def tested(request: Request, folder: Folder, result: Result) -> dict[str, Any] | None:
    """A language model's score on test, or a task's marks, on as much of it as valid was scored on; None for others."""
    asked = result.run.request

    def form() -> dict[str, Any] | None:
        if not result.run.model_config.writes:
            return None
        text, trained = own_text(result.run), Trained.load(result.run.path)
        return None if text.stands_in else trained.evaluate(text, limit=asked.eval_tokens, carry=asked.carry)

    return folder.figure(f"test {result.run.path.name}", form)


def read(request: Request, folder: Folder, measure: Measure | None, setting: Setting | None) -> list[Any]:
    """Latency and memory on this machine, one model after another; a machine too busy for it costs the figures only."""
    models = [entry.model for entry in request.entries]
    if measure is None:
        return [None] * len(models)
    length = min(entry.train.length for entry in request.entries)
    scores = models[0].writes and not models[0].needs_source and models[0].head.speaks  # pyright: ignore[reportAttributeAccessIssue]
    task = "segment" if scores else "prefill"
    how = setting or Setting(task=task, length=length)
    try:
        return [
            folder.figure(f"{how.hash[:12]} {slug}", lambda model=model: steady(measure, model, how))  # pyright: ignore[reportArgumentType]
            for slug, model in ((entry.slug, entry.model) for entry in request.entries)
        ]
    except ValueError as error:
        log.warning("latency and memory were not measured: %s", error)
        return [None] * len(models)


def steady(measure: Measure, model: Model.Config, setting: Setting) -> dict[str, Any]:
    """A reading that says something."""
    reading = measure([model], setting)[0]
    if reading.noise:
        raise ValueError(reading.noise)
    return reading.dump()
