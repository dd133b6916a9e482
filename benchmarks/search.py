"""Searching a space on this device, from an empty table: how long it takes, and how far its figures can be trusted.

1. The whole search: sublayers measured, models to calibrate on, candidates judged, models of the front measured whole.
2. The predictor on models it has not seen, drawn uniformly: median error and rank correlation.
3. Counted memory beside an independent reading: by how much a fresh process grows that holds the model and runs it.
4. Methods beside each other: hypervolume after the same number of trials, over several seeds, judged by the same table.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Annotated, Any

import harness
import numpy as np
from cyclopts import App, Parameter
from rich.console import Console
from rich.table import Table

from sublayer.measurement import Predictor, Setting, measure
from sublayer.nas import SearchReporter, Space, Stage, compare_methods, read, search
from sublayer.nas.on_device import CALIBRATED, LEARNED
from sublayer.nas.ranking import spearman
from sublayer.nn.model import Model

GOAL = {"minutes": 10, "median": 0.10, "spearman": 0.98, "span": 10, "memory": 0.10, "megabytes": 5e6}
CONFIDENCE = 1.96

console = Console(highlight=False)


def searched(space: Space, setting: Setting, population: int, iterations: int, folder: Path) -> dict[str, Any]:
    """A search from nothing, and where its time went."""
    begun, marks = time.perf_counter(), {}

    class Marks(SearchReporter):
        def phase(self, name: str, done: int, total: int) -> None:
            marks.setdefault(" ".join(name.split()[:2]), time.perf_counter() - begun)

    size = {"population": population, "iterations": iterations}
    result = search(space, folder, setting=setting, reporter=Marks(), **size).to_json()
    seconds = time.perf_counter() - begun
    read = [one for one in result["front"] if one["measured"]]
    table = Table("layout", "dim", "predicted, ms", "measured, ms", "predicted, MB", "measured, MB", box=None)
    for one in read:
        pairs = [(scale * one[kind][name]) for name, scale in (("latency", 1e3), ("memory", 1e-6)) for kind in KINDS]
        table.add_row(one["layout"], str(one["config"]["dim"]), *(f"{value:.4g}" for value in pairs))
    console.print(table)
    console.print(
        f"{result['trials']:,} candidates in {seconds / 60:.1f} min (limit {GOAL['minutes']}), {len(read)} models of "
        f"the front of {len(result['front'])} measured; predictions off by {_share(result['predictor'])}"
    )
    return {"seconds": seconds, "begun": marks, "trials": result["trials"], "predictor": result["predictor"]}


KINDS = ("values", "measured")


def unseen(space: Space, setting: Setting, models: int) -> dict[str, Any]:
    """On the table that the search left behind."""
    drawn = draw(space, models, seed=1)
    with Predictor(setting) as predictor:
        first = draw(space, LEARNED, seed=0)
        predictor.learn([*first])
        predictor.calibrate(first[:CALIBRATED])
        predictor.learn(drawn)
        errors = predictor.check(drawn)
    ranked = spearman(errors.predicted, errors.measured)
    told = {**errors.dump(), "spearman": ranked}
    console.print(
        f"{models} unseen models: latency off by a median of {100 * errors.median:.1f} % (limit 10), Spearman "
        f"{ranked:.3f} (limit 0.98), slowest over fastest {errors.span:.0f}; memory off by "
        f"{100 * errors.memory:.2f} %"
    )
    return told


def held(space: Space, setting: Setting, models: int) -> list[dict[str, float]]:
    """Counted memory against the high-water mark of a fresh process."""
    rows = []
    for config in draw(space, models, seed=2):
        reading = measure([config], setting, seconds=0.2)[0]
        assert reading.high_water is not None
        rows.append({"counted": reading.memory, "high_water": reading.high_water})
    off = [abs(row["counted"] - row["high_water"]) for row in rows]
    good = [
        gap <= (GOAL["memory"] * row["high_water"] if row["high_water"] > 50e6 else GOAL["megabytes"])
        for gap, row in zip(off, rows, strict=True)
    ]
    worst = max(gap / row["high_water"] for gap, row in zip(off, rows, strict=True))
    console.print(f"memory: {sum(good)} of {len(good)} within the limits; the worst is off by {100 * worst:.1f} %")
    return rows


def contested(space: Space, setting: Setting, seeds: Sequence[int], **size: int) -> dict[str, Any]:
    """Evolution, NSGA-II and random search on the same table."""
    with Predictor(setting) as predictor:
        first = draw(space, LEARNED, seed=0)
        predictor.learn(first)
        predictor.calibrate(first[:CALIBRATED])

        class Predicted(Stage):
            def figures(self, config: Model.Config) -> dict[str, float]:
                estimate = predictor.predict(config)
                return {"latency": estimate.latency, "memory": estimate.memory}

        found = compare_methods(space, [Predicted()], seeds=seeds, **size)
    table = Table("method", "hypervolume", "over random", box=None)
    last = {method: np.array([volumes[-1] for volumes in each.values()]) for method, each in found.items()}
    for method, volumes in last.items():
        over = volumes - last["random"]
        spread = CONFIDENCE * over.std(ddof=1) / np.sqrt(len(over)) if len(over) > 1 else float("nan")
        table.add_row(method, f"{volumes.mean():.4f}", f"{over.mean():+.4f} ± {spread:.4f}")
    console.print(table)
    return {method: [float(volume) for volume in volumes] for method, volumes in last.items()}


def draw(space: Space, count: int, seed: int) -> list[Model.Config]:
    rng, drawn = Random(seed), []
    while len(drawn) < count:
        candidate = space.candidate(space.sample(rng))
        drawn += [] if candidate is None else [candidate.config]
    return drawn


def _share(errors: dict[str, Any]) -> str:
    return " and ".join(f"{100 * errors[name]:.1f} % in {name}" for name in ("latency", "memory"))


def main(
    space: str = "lts-gpt2",
    *,
    length: int = 64,
    population: int = 100,
    iterations: int = 30,
    models: int = 50,
    memories: int = 12,
    seeds: int = 5,
    threads: int | None = None,
    json_out: Annotated[Path | None, Parameter(name="--json")] = None,
) -> None:
    """Search from an empty table in a folder that is thrown away, then question the result.

    Parameters
    ----------
    space
        A named space.
    length
        Tokens of the segment that is timed.
    population
        Candidates at first.
    iterations
        How often four fifths as many follow.
    models
        Unseen ones to check the predictor on.
    memories
        Models whose memory is read in fresh processes.
    seeds
        Of the methods that are compared.
    threads
        Processor threads.
    json_out
        Where to write the result; results/search.json if not given.
    """
    import os

    where, setting = read(space), Setting(length=length, threads=threads).resolved()
    result: dict[str, Any] = {"machine": harness.fingerprint("optuna"), "space": space, "setting": setting.dump()}
    with TemporaryDirectory(prefix="sublayer-") as folder:
        os.environ["SUBLAYER_CACHE"] = folder
        result["search"] = searched(where, setting, population, iterations, Path(folder) / "search")
        result["unseen"] = unseen(where, setting, models)
        result["memory"] = held(where, setting, memories)
        result["methods"] = contested(where, setting, range(seeds), population=population, iterations=iterations)
    console.print(f"written to {harness.write('search', result, json_out)}", style="dim")


if __name__ == "__main__":
    App(default_command=main, help=__doc__, help_format="plaintext")()
