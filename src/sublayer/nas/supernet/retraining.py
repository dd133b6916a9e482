"""What was found, trained from scratch as ordinary runs, beside what it should beat."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from sublayer import executors
from sublayer.executors.trainings import scores, train_all, why_diverged
from sublayer.nas.supernet.folder import Folder
from sublayer.nn import layout as layouts


@dataclass(frozen=True)
class Candidate:
    name: str
    kind: str
    """searched, base or par."""
    layout: str
    seed: int
    p: float | None = None


def candidates(
    layout: str, results: Sequence[dict[str, Any]], seeds: Sequence[int], par: Sequence[float]
) -> Iterator[Candidate]:
    """The base and each seed's word for every seed, PAR(p) for the first; a word of identities alone is no model."""
    for result in results:
        if result["layout"] is not None:
            yield Candidate(f"searched-{result['seed']}", "searched", result["layout"], result["seed"])
    for seed in seeds:
        yield Candidate(f"base-{seed}", "base", layout, seed)
    for p in par:
        yield Candidate(f"par-{p:g}-{seeds[0]}", "par", layouts.par(layout, p), seeds[0], p)


def retrain(folder: Folder, candidate: Candidate) -> dict[str, Any]:
    """The candidate's score; a run that has ended is not repeated, one that was stopped goes on.

    One that diverges has none, and says why; the others are trained all the same.
    """
    if (score := folder.score(candidate.name)) is not None:
        return score
    ((_, run),) = train_all(executors.pool(), [_task(folder, candidate)])
    why = why_diverged(run)
    loss = None if why else min(line["valid_loss"] for line in scores(run))
    score = {
        "name": candidate.name,
        "kind": candidate.kind,
        "layout": run.model_config.stacks[""].layout,
        "seed": candidate.seed,
        "p": candidate.p,
        "params": run.model_config.cost().params,
        "loss": loss,
        "perplexity": None if loss is None else math.exp(min(loss, 700.0)),
        "diverged": why,
        "run": f"runs/{candidate.name}",
    }
    folder.keep_score(candidate.name, score)
    return score


def _task(folder: Folder, candidate: Candidate) -> dict[str, Any]:
    """For `executors.trainings`."""
    base, asked = folder.base, folder.asked
    return {
        "model": base.but(layout=candidate.layout).dump(),
        "data": asked["data"],
        "text": asked["text"],
        "train": folder.train.but(seed=candidate.seed).dump(),
        "changes": {"vocab": base.vocab},
        "out": str(folder.run(candidate.name)),
    }
