"""What a search came to: the front, how it grew, and the front's models measured."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sublayer.measurement.reading import NOISY
from sublayer.nas import pareto
from sublayer.nas.explore import Progress
from sublayer.nas.folder import Folder
from sublayer.nas.trial import Objective, Trial, table
from sublayer.nn.model import Model
from sublayer.runs import sealed_json

MEASURED = 15
"""Models of the front that are measured, if there are so many."""
KEPT = ("config", "measured", "run")
"""What is not found again by replaying the search."""
MARGIN = 0.1
"""How far the reference lies beyond the worst values seen, as a share of their range."""


def front(trials: Sequence[Trial], objectives: Sequence[Objective]) -> list[Trial]:
    """Those within the limits that no other beats, the fastest first."""
    within = [trial for trial in trials if trial.feasible]
    best = [within[at] for at in pareto.front(table(within, objectives))]
    return sorted(best, key=lambda trial: [*_along(trial, objectives), trial.number])


def box(points: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The best of each coordinate, and a reference a little beyond the worst."""
    best, worst = points.min(0), points.max(0)
    return best, worst + MARGIN * np.where(worst > best, worst - best, 1.0)


def growth(progress: Progress, ideal: NDArray[np.float64], reference: NDArray[np.float64]) -> list[float]:
    """The hypervolume after each generation, as a share of the box."""
    found, kept, before = [], np.empty((0, len(progress.objectives))), 0
    for after in progress.generations:
        new = [trial for trial in progress.trials[before:after] if trial.feasible]
        kept = np.concatenate([kept, table(new, progress.objectives)])
        kept = kept[pareto.front(kept)]
        found.append(pareto.share(kept, ideal, reference))
        before = after
    return found


def describe(progress: Progress, limits: Mapping[str, float], notes: Mapping[str, Any]) -> dict[str, Any]:
    """What front.json says."""
    objectives = progress.objectives
    within = [trial for trial in progress.trials if trial.feasible]
    ideal, reference = box(table(within, objectives))
    volumes = growth(progress, ideal, reference)
    signs = np.array([objective.sign for objective in objectives])
    return {
        "format": sealed_json.FORMAT,
        "objectives": [objective.dump() for objective in objectives],
        "limits": dict(limits),
        "trials": len(progress.trials),
        "feasible": len(within),
        "hypervolume": volumes[-1],
        "hypervolumes": volumes,
        "generations": progress.generations,
        "ideal": (ideal * signs).tolist(),
        "reference": (reference * signs).tolist(),
        "device": None,
        "setting": None,
        "predictor": None,
        **notes,
        "front": [entry(trial) for trial in front(within, objectives)],
    }


def entry(trial: Trial) -> dict[str, Any]:
    config = trial.candidate.config
    return {
        "number": trial.number,
        "config": config.dump(),
        "layout": " → ".join(stack.layout for stack in config.stacks.values()),
        "values": trial.figures,
        "measured": None,
        "run": None,
    }


def measured(
    folder: Folder, result: dict[str, Any], measure: Callable[[Model.Config], Any] | None = None
) -> dict[str, Any]:
    """Write the result; measure models spread along the front that were not measured before, one by one."""
    if folder.front.exists():
        before = _before(folder.front)
        for one in result["front"]:
            known = before.get(one["number"])
            if known is not None and known["config"] == one["config"]:
                one |= {"measured": known["measured"], "run": known["run"]}
    left = [one for one in along(result["front"], MEASURED) if not _known(one)] if measure else []
    while True:
        result["predictor"] = errors(result["front"])
        sealed_json.write(folder.front, result)
        if measure is None or not left:
            return result
        one = left.pop(0)
        reading = measure(Model.Config.parse(one["config"]))
        one["measured"] = {name: getattr(reading, name) for name in ("latency", "low", "high", "memory")}


def _before(path: Path) -> dict[int, dict[str, Any]]:
    """The front as it was written before, by the numbers of its trials."""
    try:
        return {one["number"]: {name: one[name] for name in KEPT} for one in sealed_json.read(path)["front"]}
    except (KeyError, TypeError):
        raise ValueError(
            f"{path}: not what a search writes, so it was damaged or edited; remove it, and the search forms it anew"
        ) from None


def _known(entry: dict[str, Any]) -> bool:
    """Whether it was measured, and not in too much noise."""
    found = entry["measured"]
    return found is not None and (found["high"] - found["low"]) / 2 <= NOISY * found["latency"]


def errors(entries: Sequence[dict[str, Any]]) -> dict[str, Any] | None:
    """How wrong the predictions were, on the models that were measured: medians of their share."""
    pairs = [(one["values"], one["measured"]) for one in entries if _known(one) and "latency" in one["values"]]
    if not pairs:
        return None
    wrong = {
        name: float(np.median([abs(predicted[name] / real[name] - 1) for predicted, real in pairs]))
        for name in ("latency", "memory")
        if name in pairs[0][0]
    }
    return {"models": len(pairs), **wrong}


def along(entries: Sequence[dict[str, Any]], count: int) -> list[dict[str, Any]]:
    """`count` of the front, from one end to the other."""
    places = np.linspace(0, len(entries) - 1, min(count, len(entries))).round().astype(int)
    return [entries[at] for at in places]


def _along(trial: Trial, objectives: Sequence[Objective]) -> list[float]:
    """By latency, where it is a figure; else by the objectives in turn."""
    names = ["latency"] if "latency" in trial.figures else []
    return [trial.figures[name] for name in names] + table([trial], objectives)[0].tolist()
