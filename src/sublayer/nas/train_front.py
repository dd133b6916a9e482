"""The best models of a front, trained: ordinary runs in the folder of the search."""

from __future__ import annotations

from pathlib import Path

from sublayer.data import Dataset
from sublayer.executors import Pool
from sublayer.executors.trainings import train_all
from sublayer.nas.folder import SearchFolder
from sublayer.nas.records import FrontModel, SearchResult
from sublayer.nas.reporters import SearchReporter
from sublayer.training import TrainConfig

RUNS = "runs"


def best(result: SearchResult, count: int) -> list[FrontModel]:
    """The best by the first objective, without those whose measurement exceeds a limit."""
    first = result.objectives[0]
    within = [one for one in result.front if one.within is not False]
    return sorted(within, key=lambda one: one.values[first.name], reverse=first.direction == "maximize")[:count]


def train_front(
    result: SearchResult,
    count: int,
    text: Dataset,
    config: TrainConfig,
    folder: SearchFolder,
    pool: Pool,
    reporter: SearchReporter,
) -> SearchResult:
    """Train the best `count` models that are not trained yet; front.json names each run as soon as it has ended.

    The caller holds the folder's lock.
    """
    chosen = best(result, count)
    tasks = [
        {
            "model": one.config,
            "data": text.config.dump(),
            "train": config.dump(),
            "out": str(folder.path / RUNS / f"{one.number:04d}"),
            "text": text.hash,
            "origin": f"{folder.path}#{one.number}",
        }
        for one in chosen
    ]
    reporter.trainings([Path(task["out"]) for task in tasks])
    for index, run in train_all(pool, tasks):
        result = result.replace(chosen[index].number, run=f"{RUNS}/{run.path.name}")
        folder.write_result(result)
    return result
