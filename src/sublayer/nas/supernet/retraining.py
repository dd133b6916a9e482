"""What was found, trained from scratch as ordinary runs, beside what it should beat."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from sublayer import training
from sublayer.data import DataConfig
from sublayer.nas.supernet.folder import Folder
from sublayer.nn import layout as layouts
from sublayer.runs import Run
from sublayer.training.job import begin


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
    """The candidate's score; a run that has ended is not repeated, one that was stopped goes on."""
    if (score := folder.score(candidate.name)) is not None:
        return score
    base, path = folder.base, folder.run(candidate.name)
    if (path / "run.json").exists():
        run = Run.open(path)
    else:
        data = DataConfig.parse(folder.asked["data"])
        config = folder.train.but(seed=candidate.seed)
        run = begin(base.but(layout=candidate.layout), data, path, config, {"vocab": base.vocab})
    training.resume(run, quiet=True)
    losses = [line["valid_loss"] for line in run.metrics if "valid_loss" in line]
    score = {
        "name": candidate.name,
        "kind": candidate.kind,
        "layout": run.model_config.stacks[""].layout,
        "seed": candidate.seed,
        "p": candidate.p,
        "params": run.model_config.cost().params,
        "loss": min(losses),
        "perplexity": math.exp(min(min(losses), 700.0)),
        "run": f"runs/{candidate.name}",
    }
    folder.keep_score(candidate.name, score)
    return score
