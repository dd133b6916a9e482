"""The table: a row for each variant, and each against the first."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from statistics import median
from typing import Any

from sublayer.comparison.interval import Interval, verdict
from sublayer.comparison.request import Entry, Request
from sublayer.comparison.result import Result
from sublayer.comparison.width import apart
from sublayer.nn.model import Decoder
from sublayer.runs.environment import environment

FORMAT = 1
HOW = (
    "Student's t over seeds, at 95 %; against the first variant: of differences seed by seed, each verdict by itself, "
    "not corrected for how many there are"
)
Results = Mapping[int, Result]
"""Of one variant, by seed."""
Score = Callable[[Result], Mapping[str, Any] | None]
"""On test, if it has one."""


def table(request: Request, results: Sequence[Results], score: Score, readings: Sequence[Any]) -> dict[str, Any]:
    """readings: of latency and memory, one a variant, or None."""
    rows = []
    for entry, own, reading in zip(request.entries, results, readings, strict=True):
        rows.append({**row(request, entry, own), **tested(entry, own, score), **measured(reading)})
        rows[-1]["difference"] = against(own, results[0]) if len(rows) > 1 else None
    return {
        "format": FORMAT,
        "metric": "valid_loss",
        "how": HOW,
        "baseline": request.entries[0].name,
        "rows": rows,
        "asked": request.dump(),
        "device": environment(),
    }


def row(request: Request, entry: Entry, results: Results) -> dict[str, Any]:
    cost, losses = entry.model.cost(), [result.loss for result in results.values()]
    mean = Interval.of(there(losses))
    generates = isinstance(entry.model, Decoder.Config) and entry.model.head.speaks
    speeds = there([result.speed for result in results.values()])
    return {
        "name": entry.name,
        "slug": entry.slug,
        "layout": " → ".join(stack.layout for stack in entry.model.stacks.values()),
        "config": entry.model.dump(),
        "params": cost.params,
        "decoder_params": cost.decoder_params,
        "params_off": None if request.equal_params is None else apart(entry.model, request.equal_params),
        "lr": next(iter(results.values())).run.asked["train"]["lr"],
        "seeds": list(results),
        "runs": [f"runs/{result.run.path.name}" for result in results.values()],
        "losses": losses,
        **(mean.dump() if mean else {"mean": None, "low": None, "high": None}),
        "best": dumped([result.best for result in results.values()]),
        "perplexity": mean.map(math.exp).dump() if mean and generates else None,
        "bits_per_byte": dumped([result.bits_per_byte for result in results.values()]),
        "accuracy": dumped([result.accuracy for result in results.values()]),
        "sequence_accuracy": dumped([result.sequence_accuracy for result in results.values()]),
        "diverged": {str(seed): result.diverged for seed, result in results.items() if result.diverged},
        "tokens": max(result.tokens for result in results.values()),
        "minutes": sum(result.seconds for result in results.values()) / 60,
        "tokens_per_second": median(speeds) if speeds else None,
    }


def tested(entry: Entry, results: Results, score: Score) -> dict[str, Any]:
    """Scores on test: of text that no choice was made by."""
    scores = [None if result.diverged else score(result) for result in results.values()]
    units = ("loss", "perplexity", "bits_per_byte", "accuracy", "sequence_accuracy")
    found = {unit: dumped([one.get(unit) if one else None for one in scores]) for unit in units}
    return {"test": found if any(found.values()) else None}


def measured(reading: Mapping[str, Any] | None) -> dict[str, Any]:
    if reading is None:
        return {"latency": None, "memory": None}
    return {"latency": {name: reading[name] for name in ("latency", "low", "high")}, "memory": reading["memory"]}


def against(results: Results, first: Results) -> dict[str, Any]:
    """Losses less those of the first variant, on the seeds that both came to the end with."""
    pairs = [(results[seed].loss, first[seed].loss) for seed in results]
    found = Interval.of([ours - theirs for ours, theirs in pairs if ours is not None and theirs is not None])
    lost = [str(seed) for seed, result in results.items() if result.diverged]
    said = f"diverged with seed {', '.join(lost)}" if lost else verdict(found)
    return {**(found.dump() if found else {"mean": None, "low": None, "high": None}), "verdict": said}


def best_first(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """As people read them: those that diverged come last."""
    return sorted(rows, key=lambda row: (bool(row["diverged"]), math.inf if row["mean"] is None else row["mean"]))


def dumped(values: Sequence[float | None]) -> dict[str, Any] | None:
    """With the values themselves, one a seed."""
    found = Interval.of(there(values))
    return {**found.dump(), "values": list(values)} if found else None


def there(values: Sequence[float | None]) -> list[float]:
    return [value for value in values if value is not None]
