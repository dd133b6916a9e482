"""All proxies of one model, in any process."""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence
from itertools import islice
from time import perf_counter
from typing import Any

from sublayer.data import Batch, DataConfig, Windows, prepare
from sublayer.nas.proxies.base import find
from sublayer.nn.model import Model
from sublayer.training import TrainConfig

log = logging.getLogger("sublayer.nas")


def score_all(task: dict[str, Any]) -> dict[str, Any]:
    """From a task as plain data to each score and its seconds, as plain data."""
    model, batches = Model.Config.parse(task["model"]), _batches(task)
    scores, seconds = {}, {}
    for name in task["proxies"]:
        began = perf_counter()
        scores[name] = _score(name, model, batches, task["seed"])
        seconds[name] = perf_counter() - began
    return {"number": task["number"], "scores": scores, "seconds": seconds}


def _batches(task: dict[str, Any]) -> list[Batch]:
    """Empty without a text, which some proxies do not need."""
    if task["data"] is None:
        return []
    config, tokens = TrainConfig.parse(task["train"]), prepare(DataConfig.parse(task["data"])).train
    return list(islice(Windows(tokens, config.batch, config.length, seed=task["seed"]), task["steps"] + 1))


def _score(name: str, model: Model.Config, batches: Sequence[Batch], seed: int) -> float | None:
    """None, with a warning, where a model has no such score."""
    try:
        found = find(name).score(model, batches, seed)
    except ValueError as error:
        log.warning("%s has no score for a model: %s", name, error)
        return None
    return found if math.isfinite(found) else None
