"""Does a busy start spoil a search? Three searches, each with a cache of its own: quiet, begun while other processes
keep the machine busy, and quiet again. The predictor of each quiet one judges the fronts of all; hypervolumes should
agree.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from random import Random
from typing import Annotated

import harness
import trust
from cyclopts import App, Parameter
from rich.console import Console
from rich.table import Table

from sublayer.measurement import Predictor, Setting
from sublayer.nas import SearchResult, Space, pareto, read
from sublayer.nas.folder import SearchFolder
from sublayer.nas.on_device import CALIBRATED, LEARNED
from sublayer.nn.model import Model

GOAL = 0.02
"""Largest difference between the hypervolumes of the busy search and of a quiet one."""
SIZES = (
    "layout=(sf)x2|(sf)x3|(sf)x4|(sf)x6|(sff)x2|(sff)x3|(sff)x4",
    "dim=64..384/64",
    "f.inner=each(128..1536/64)",
    "s.heads=4",
    "vocab=256",
)
"""Changes of gpt2: choices that a search of a few minutes exhausts."""
QUIET, BUSY, AGAIN = "quiet", "busy at first", "quiet again"

console = Console(highlight=False)


@dataclass(frozen=True)
class Judged:
    """The front of a search, by the predictor of a quiet one."""

    search: str
    judge: str
    hypervolume: float


def searched(
    name: str, folder: Path, space: Sequence[str], limit: float, size: dict[str, int], busy: int, seconds: float
) -> float:
    """Run a search, with busy processes beside it for the first `seconds`; how long it took."""
    words = [*space, "--out", str(folder / "search"), "--latency-max", f"{limit}ms", "--wait", "5"]
    words += [word for key, value in size.items() for word in (f"--{key}", str(value))]
    environment, begun = {**os.environ, "SUBLAYER_CACHE": str(folder / "cache")}, time.monotonic()
    with trust.disturbing(busy, "products"):
        command = [sys.executable, "-m", "sublayer.cli", "search", *words]
        process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL)
        if busy:
            time.sleep(seconds)
    if process.wait():
        raise RuntimeError(f"the search {name!r} ended with exit code {process.returncode}")
    return time.monotonic() - begun


def judged(fronts: dict[str, list[Model.Config]], judge: str, folder: Path, space: Space) -> list[Judged]:
    """The hypervolume of each front in decoder parameters, latency and memory, as a share of the box of all of them."""
    with Predictor(Setting(), folder=folder / "cache") as predictor:
        first = drawn(space)
        predictor.learn(first)
        predictor.calibrate(first[:CALIBRATED])
        points = {name: [_point(config, predictor) for config in front] for name, front in fronts.items()}
    columns = list(zip(*(point for several in points.values() for point in several), strict=True))
    best, worst = [min(column) for column in columns], [max(column) for column in columns]
    worst = [one + 1e-3 * (one - least) for one, least in zip(worst, best, strict=True)]
    return [Judged(name, judge, pareto.share(several, best, worst)) for name, several in points.items()]


def drawn(space: Space) -> list[Model.Config]:
    """The candidates on which the search's own predictor was fitted."""
    rng = Random(0)
    candidates = (space.candidate(space.sample(rng)) for _ in range(10 * LEARNED))
    return [one.config for one in candidates if one is not None][:LEARNED]


def _point(config: Model.Config, predictor: Predictor) -> tuple[float, float, float]:
    estimate = predictor.predict(config)
    return -float(config.cost().decoder_params), estimate.latency, float(estimate.memory)


def _front(folder: Path) -> list[Model.Config]:
    result: SearchResult | None = SearchFolder.open(folder / "search").read_result()
    assert result is not None
    return [Model.Config.parse(one.config) for one in result.front]


def main(
    space: str = "gpt2",
    *changes: str,
    latency_max: float = 6.0,
    population: int = 100,
    iterations: int = 100,
    busy: int = 2,
    seconds: float = 45.0,
    out: Annotated[Path | None, Parameter(name="--json")] = None,
) -> None:
    """Search three times, then judge the three fronts.

    Parameters
    ----------
    space
        A named space, or a paper.
    changes
        Choices and values, as of `sublayer search`; for gpt2, depths and widths if not given. A space with many kinds
        of sublayers is measured for an hour, and short searches of it differ by more than the goal by chance.
    latency_max
        Limit of each search, in ms.
    population
        Number of candidates in the first generation.
    iterations
        Number of generations after it.
    busy
        Number of busy processes.
    seconds
        How long they are busy.
    out
        Where to write the result; results/steady_front.json if not given.
    """
    words = changes or (SIZES if space == "gpt2" else ())
    size, took = {"population": population, "iterations": iterations}, {}
    with tempfile.TemporaryDirectory(prefix="sublayer-") as root:
        folders = {name: Path(root) / name.replace(" ", "-") for name in (QUIET, BUSY, AGAIN)}
        for name, folder in folders.items():
            count = busy if name == BUSY else 0
            took[name] = searched(name, folder, (space, *words), latency_max, size, count, seconds)
        asked = read(space, dict(word.split("=", 1) for word in words))
        fronts = {name: _front(folder) for name, folder in folders.items()}
        found = [one for name in (QUIET, AGAIN) for one in judged(fronts, name, folders[name], asked)]
    volumes = {(one.search, one.judge): one.hypervolume for one in found}
    table = Table("search", "seconds", "models", f"judged by {QUIET}", f"judged by {AGAIN}", box=None)
    for name in folders:
        both = (f"{volumes[name, judge]:.4f}" for judge in (QUIET, AGAIN))
        table.add_row(name, f"{took[name]:.0f}", str(len(fronts[name])), *both)
    console.print(table)
    differences = [volumes[BUSY, judge] / volumes[judge, judge] - 1 for judge in (QUIET, AGAIN)]
    chance = volumes[AGAIN, QUIET] / volumes[QUIET, QUIET] - 1
    console.print(
        f"busy at first against quiet: {100 * differences[0]:+.2f} %, {100 * differences[1]:+.2f} % "
        f"(goal within {100 * GOAL:.0f} %); quiet again against quiet: {100 * chance:+.2f} %"
    )
    result = {"machine": harness.fingerprint(), "seconds": took, "judged": [asdict(one) for one in found]}
    console.print(f"written to {harness.write('steady_front', result, out)}", style="dim")


if __name__ == "__main__":
    App(default_command=main, help=__doc__, help_format="plaintext")()
