"""The best of a front, trained: ordinary runs in the search's folder."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from sublayer.data import Dataset
from sublayer.executors import Pool
from sublayer.executors.trainings import train_all
from sublayer.nas.folder import Folder
from sublayer.runs import sealed_json
from sublayer.runs.wording import plural
from sublayer.training import TrainConfig

RUNS = "runs"


def best(result: dict[str, Any], count: int) -> list[dict[str, Any]]:
    """The first objective's best, without those that turned out beyond a limit when they were measured."""
    first = result["objectives"][0]
    within = [one for one in result["front"] if not beyond(one, result["limits"])]
    upwards = first["direction"] == "maximize"
    return sorted(within, key=lambda one: one["values"][first["name"]], reverse=upwards)[:count]


def beyond(entry: dict[str, Any], limits: dict[str, float]) -> list[str]:
    """The limits that a model's own measurement exceeds."""
    known = entry["measured"] or {}
    return [name for name, most in limits.items() if known.get(name, 0) > most]


def train_best(
    out: Path | str,
    result: dict[str, Any],
    count: int,
    data: Dataset,
    config: TrainConfig,
    pool: Pool,
    tell: Callable[[str], None] = lambda what: None,
) -> dict[str, Any]:
    """Train them, those that are not done yet; front.json names each run as soon as it is."""
    folder = Folder(Path(out))
    chosen = best(result, count)
    tasks = [
        {
            "model": one["config"],
            "data": data.config.dump(),
            "train": config.dump(),
            "out": str(folder.path / RUNS / f"{one['number']:04d}"),
            "text": data.hash,
        }
        for one in chosen
    ]
    with folder.held():
        tell(f"training {plural(len(tasks), 'model')}")
        for done, (index, run) in enumerate(train_all(pool, tasks), 1):
            chosen[index]["run"] = f"{RUNS}/{run.path.name}"
            sealed_json.write(folder.front, result)
            tell(f"trained {done} of {plural(len(tasks), 'model')}")
    return result
