"""Layouts that were found, trained from scratch as ordinary runs, beside the base and PAR(p)."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from sublayer import executors
from sublayer.executors.trainings import scores, train_all, why_diverged
from sublayer.nas.supernet.folder import SupernetFolder
from sublayer.nn import layout as layouts


@dataclass(frozen=True)
class Retraining:
    name: str
    kind: str
    """searched, base or par."""
    layout: str
    seed: int
    p: float | None = None


def retrainings(
    layout: str, results: Sequence[dict[str, Any]], seeds: Sequence[int], par: Sequence[float]
) -> Iterator[Retraining]:
    """Each seed's word and the base for every seed, PAR(p) for the first; a word of identities alone is no model."""
    for result in results:
        if result["layout"] is not None:
            yield Retraining(f"searched-{result['seed']}", "searched", result["layout"], result["seed"])
    for seed in seeds:
        yield Retraining(f"base-{seed}", "base", layout, seed)
    for p in par:
        yield Retraining(f"par-{p:g}-{seeds[0]}", "par", layouts.par(layout, p), seeds[0], p)


def retrain(folder: SupernetFolder, one: Retraining) -> dict[str, Any]:
    """Train one layout and return its score; a run that has ended is not repeated, one that was stopped continues.

    A run that diverges has no perplexity, and names the reason.
    """
    if (score := folder.score(one.name)) is not None:
        return score
    ((_, run),) = train_all(executors.pool(), [_task(folder, one)])
    why = why_diverged(run)
    loss = None if why else min(line["valid_loss"] for line in scores(run))
    score = {
        "name": one.name,
        "kind": one.kind,
        "layout": run.model_config.stacks[""].layout,
        "seed": one.seed,
        "p": one.p,
        "params": run.model_config.cost().params,
        "loss": loss,
        "perplexity": None if loss is None else math.exp(min(loss, 700.0)),
        "diverged": why,
        "run": f"runs/{one.name}",
    }
    folder.write_score(one.name, score)
    return score


def _task(folder: SupernetFolder, one: Retraining) -> dict[str, Any]:
    """A task of `executors.trainings`."""
    base, request = folder.base, folder.request
    return {
        "model": base.but(layout=one.layout).dump(),
        "data": request["data"],
        "text": request["text"],
        "train": folder.train.but(seed=one.seed).dump(),
        "changes": {"vocab": base.vocab},
        "out": str(folder.run(one.name)),
    }
