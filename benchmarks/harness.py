"""One harness for all benchmarks: contestants side by side in one run, told with their spread.

- Rounds are interleaved, in an order drawn anew each round: what slows the machine slows all contestants alike.
- Speeds are compared by the ratio of medians. Its interval comes from resampling whole rounds (bootstrap), so that
  what the contestants of a round share cancels.
- A timing during which other processes were at work is taken again, as long as there is time for it.
- Where the interval holds the line that was to be passed, there is no verdict.
"""

from __future__ import annotations

import gc
import json
import math
import os
import platform
import random
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal

import neighbours
import numpy as np
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

RESULTS = Path(__file__).parent / "results"
DRAWS = 2000
"""Resamplings behind an interval."""
CONFIDENCE = 0.95
LEAST_ROUNDS = 5

Verdict = Literal["faster", "slower", "no verdict"]
Contestants = Mapping[str, Callable[[], object]]
CLOCKS: dict[str, Callable[[], float]] = {"wall": time.perf_counter, "cpu": time.process_time}
"""wall: what a user waits. cpu: time on processors, which a busy machine disturbs less; sound with one thread only,
since threads that wait for others are counted as at work."""


@dataclass(frozen=True)
class Ratio:
    """A ratio of speeds: ours over theirs, so above 1 is faster; with the resampled values behind its interval."""

    value: float
    draws: np.ndarray

    @property
    def interval(self) -> tuple[float, float]:
        tail = (1 - CONFIDENCE) / 2
        low, high = np.quantile(self.draws, [tail, 1 - tail])
        return min(float(low), self.value), max(float(high), self.value)

    @property
    def spread(self) -> float:
        """Half the interval's width, as a share of the value."""
        low, high = self.interval
        return (high - low) / 2 / self.value

    def verdict(self, line: float = 1.0) -> Verdict:
        """Against a line to pass; none where the interval holds the line."""
        low, high = self.interval
        if low > line:
            return "faster"
        return "slower" if high < line else "no verdict"

    def dump(self) -> dict[str, Any]:
        low, high = self.interval
        return {"ratio": self.value, "low": low, "high": high, "verdict": self.verdict()}

    def __str__(self) -> str:
        low, high = self.interval
        return f"{self.value:.3f} [{low:.3f}, {high:.3f}]"


def geometric_mean(ratios: Iterable[Ratio]) -> Ratio:
    """Of ratios measured apart: their draws are independent, and are combined one by one."""
    ratios = list(ratios)
    value = math.exp(sum(math.log(ratio.value) for ratio in ratios) / len(ratios))
    return Ratio(value, np.exp(np.mean([np.log(ratio.draws) for ratio in ratios], axis=0)))


@dataclass(frozen=True)
class Race:
    """Seconds of each contestant in each round, and what share of the machine others took meanwhile."""

    seconds: Mapping[str, Sequence[float]]
    others: Mapping[str, Sequence[float]] = field(default_factory=dict)

    @property
    def rounds(self) -> int:
        return len(next(iter(self.seconds.values())))

    def median(self, name: str) -> float:
        return float(np.median(self.seconds[name]))

    def quartiles(self, name: str) -> tuple[float, float]:
        low, high = np.quantile(self.seconds[name], [0.25, 0.75])
        return float(low), float(high)

    def speedup(self, ours: str, *peers: str, seed: int = 0) -> Ratio:
        """How much faster we are than the fastest of the peers; which is fastest is drawn too."""
        ours_R = np.asarray(self.seconds[ours])
        peers_PR = np.asarray([self.seconds[peer] for peer in peers])
        value = float(np.median(peers_PR, axis=1).min() / np.median(ours_R))
        rounds_XR = np.random.default_rng(seed).integers(self.rounds, size=(DRAWS, self.rounds))
        theirs_X = np.median(peers_PR[:, rounds_XR], axis=2).min(axis=0)
        return Ratio(value, theirs_X / np.median(ours_R[rounds_XR], axis=1))

    def fastest(self, *names: str) -> str:
        return min(names or self.seconds, key=self.median)

    def dump(self) -> dict[str, Any]:
        return {name: self._dump(name) for name in self.seconds}

    def _dump(self, name: str) -> dict[str, Any]:
        low, high = self.quartiles(name)
        return {
            "median": self.median(name),
            "quartiles": [low, high],
            "seconds": list(self.seconds[name]),
            "others": list(self.others.get(name, [])),
        }


def race(
    contestants: Contestants,
    ours: str,
    *,
    repeats: int = LEAST_ROUNDS,
    seconds: float = 60.0,
    spread: float = 0.01,
    warm_up: int = 2,
    clock: Callable[[], float] = time.perf_counter,
    on_round: Callable[[Race], object] = lambda race: None,
    seed: int = 0,
) -> Race:
    """At least `repeats` rounds, then more until every peer's ratio is known to `spread`, or `seconds` have passed."""
    if repeats < LEAST_ROUNDS:
        raise ValueError(f"repeats: {repeats} rounds say too little about spread; use at least {LEAST_ROUNDS}")
    if ours not in contestants:
        raise ValueError(f"ours: {ours!r} does not run; the contestants are {', '.join(contestants)}")
    for run in contestants.values():
        for _ in range(warm_up):
            run()
    done = Race({name: [] for name in contestants}, {name: [] for name in contestants})
    end, order, dice = time.perf_counter() + seconds, list(contestants), random.Random(seed)
    gc.freeze()  # what is there already need not be searched before every timing
    try:
        while done.rounds < repeats or (time.perf_counter() < end and not _settled(done, ours, spread)):
            dice.shuffle(order)
            for name in order:
                took, others = _undisturbed(contestants[name], clock, end)
                done.seconds[name].append(took)
                done.others[name].append(others)
            on_round(done)
    finally:
        gc.unfreeze()
    return done


def _settled(race: Race, ours: str, spread: float) -> bool:
    return all(race.speedup(ours, peer).spread <= spread for peer in race.seconds if peer != ours)


def _undisturbed(run: Callable[[], object], clock: Callable[[], float], end: float) -> tuple[float, float]:
    """Seconds, and the others' share; the least disturbed of as many tries as it takes before `end`."""
    tries = [watched(run, clock)]
    while tries[-1][1] > neighbours.QUIET and time.perf_counter() < end:
        neighbours.wait(end)
        tries.append(watched(run, clock))
    return min(tries, key=lambda one: one[1])


def watched(run: Callable[[], object], clock: Callable[[], float]) -> tuple[float, float]:
    before = neighbours.Reading.now()
    took = timed(run, clock)
    return took, neighbours.share(before, neighbours.Reading.now())


def timed(run: Callable[[], object], clock: Callable[[], float] = time.perf_counter) -> float:
    """Seconds of one run, without the garbage collector."""
    gc.collect()
    gc.disable()
    try:
        start = clock()
        run()
        return clock() - start
    finally:
        gc.enable()


def gemm_peak(
    sizes: Sequence[int] = (1024, 1536, 2048), repeats: int = 5, clock: Callable[[], float] = time.perf_counter
) -> float:
    """FLOP/s of the best fp32 product of two square matrices, as this machine's library does it."""
    import torch

    best = 0.0
    for size in sizes:
        a, b, out = (torch.rand(size, size) for _ in range(3))
        torch.mm(a, b, out=out)
        fastest = min(timed(lambda a=a, b=b, out=out: torch.mm(a, b, out=out), clock) for _ in range(repeats))
        best = max(best, 2 * size**3 / fastest)
    return best


def fingerprint(*packages: str) -> dict[str, Any]:
    """What the numbers depend on: processor, threads, versions, and how busy the machine was at the start."""
    import torch

    return {
        "cpu": _cpu_model(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "load": os.getloadavg()[0],
        "system": platform.platform(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        **{package: version(package) for package in packages},
        "time": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def _cpu_model() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor()


def progress(console: Console) -> Progress:
    """A bar on a terminal, nothing elsewhere."""
    columns = TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[said]}"), TimeElapsedColumn()
    return Progress(*columns, console=console, transient=True, disable=not console.is_terminal)


def write(name: str, result: Mapping[str, Any], path: Path | None = None) -> Path:
    """As results/NAME.json, or where told; whole or not at all."""
    path = path or RESULTS / f"{name}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    draft.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    draft.replace(path)
    return path
