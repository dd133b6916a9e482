"""Can `sublayer measure` be believed? Models measured through the command line while this script disturbs the machine.

For each model, number of threads and disturbance, some repeats spread over the run: how many answers lie within 10 % of
the quiet value, how many were refused, how many are silently wrong (farther off, and the stated interval does not hold
the quiet value), and how many intervals hold it. The quiet value is the median of the answers while nothing disturbs.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

import harness
from rich.console import Console
from rich.table import Table

NEAR = 0.1
"""Share of the quiet value by which an answer may be off."""
MODELS: dict[str, Sequence[str]] = {
    "0.2M": ("gpt2", "dim=64", "layout=(sf)x4", "s.heads=2", "vocab=256"),
    "1M": ("gpt2", "dim=128", "layout=(sf)x5", "s.heads=4", "vocab=256"),
    "25M": ("gpt2", "dim=512", "layout=(sf)x8", "s.heads=8", "vocab=256"),
    "3M": ("gpt2", "dim=256", "layout=(sf)x4", "s.heads=4", "vocab=256"),
    "10M": ("gpt2", "dim=384", "layout=(sf)x6", "s.heads=6", "vocab=256"),
}
"""Name → words of the command; `--models 3` takes the first three."""
BUSY = {
    "spin": "while True: pass",
    "products": "import numpy; a = numpy.ones((512, 512), numpy.float32)\nwhile True: a @ a",
}
"""Kinds of disturbing processes; repeats take turns between them."""
ONE_THREAD = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
START = 1.0
"""Seconds for a disturbing process to get to work."""


@dataclass(frozen=True)
class Answer:
    """Of one call: a latency with its interval in seconds, or a refusal."""

    model: str
    threads: int
    busy: int
    kind: str
    latency: float | None = None
    low: float | None = None
    high: float | None = None
    raw: float | None = None
    slowdown: float | None = None
    refused: str | None = None


@dataclass(frozen=True)
class Cell:
    """All answers for one model, number of threads and number of disturbing processes."""

    model: str
    threads: int
    busy: int
    calls: int
    refused: int
    near: int
    wrong: int
    """Answers farther off than NEAR whose interval does not hold the quiet value."""
    covered: int
    """Answers whose interval holds the quiet value."""

    @property
    def answers(self) -> int:
        return self.calls - self.refused


def main() -> None:
    asked = arguments()
    console, begun = Console(), time.monotonic()
    calls = plan(list(MODELS)[: asked.models], asked.threads, asked.busy, asked.times)
    answers: list[Answer] = []
    with tempfile.TemporaryDirectory() as folder, harness.progress(Console(stderr=True)) as bar:
        task = bar.add_task("measuring", total=len(calls), said="")
        for model, threads, busy, kind in calls:
            bar.update(task, said=f"{model}, {threads} threads, {busy} busy")
            with disturbing(busy, kind):
                answers.append(measure(model, threads, busy, kind, asked.seconds, asked.wait, Path(folder)))
            bar.advance(task)
    cells = tabulate(answers)
    console.print(draw(cells))
    total = summary(cells)
    answered = max(1, total["answers"])
    console.print(
        f"within {100 * NEAR:.0f} % or refused: {100 * total['sound']:.1f} % (goal 95 %), of the answers "
        f"{100 * total['near'] / answered:.1f} % · silently wrong: {total['wrong']} (goal 0) · intervals that hold the "
        f"quiet value: {100 * total['covered']:.1f} % (goal 90 %)"
    )
    result = {
        "machine": harness.fingerprint(),
        "seconds": time.monotonic() - begun,
        "summary": total,
        "cells": [asdict(cell) for cell in cells],
        "answers": [asdict(answer) for answer in answers],
    }
    console.print(f"written to {harness.write('trust', result, asked.out)}", style="dim")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--times", type=int, default=8, help="repeats of each cell (8)")
    parser.add_argument("--models", type=int, default=len(MODELS), help="number of models (5)")
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2], help="numbers of threads (1 2)")
    parser.add_argument("--busy", type=int, nargs="+", default=[0, 1, 2], help="numbers of busy processes (0 1 2)")
    parser.add_argument("--seconds", type=float, default=0.5, help="as of sublayer measure (0.5)")
    parser.add_argument("--wait", type=float, default=0.0, help="as of sublayer measure (0)")
    parser.add_argument("--out", type=Path, help="another file than results/trust.json")
    return parser.parse_args()


def plan(
    models: Sequence[str], threads: Sequence[int], busy: Sequence[int], times: int
) -> list[tuple[str, int, int, str]]:
    """All calls: the quiet ones of the first round come first, then every round in an order of its own."""
    order, calls = random.Random(0), []
    for number in range(times):
        kind = list(BUSY)[number % len(BUSY)]
        cells = [(model, count, others, kind) for model in models for count in threads for others in busy]
        calls += sorted(order.sample(cells, len(cells)), key=lambda cell: number == 0 and cell[2] > 0)
    return calls


@contextmanager
def disturbing(count: int, kind: str) -> Iterator[None]:
    """With so many other processes at work."""
    processes = [subprocess.Popen([sys.executable, "-c", BUSY[kind]], env=ONE_THREAD) for _ in range(count)]
    try:
        time.sleep(START if count else 0)
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()


def measure(model: str, threads: int, busy: int, kind: str, seconds: float, wait: float, folder: Path) -> Answer:
    words = [*MODELS[model], "--threads", str(threads), "--seconds", str(seconds), "--wait", str(wait), "--json"]
    command = [sys.executable, "-m", "sublayer.cli", "measure", *words]
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, env={**os.environ, "SUBLAYER_CACHE": str(folder)}
    )
    if done.returncode == 2:
        return Answer(model, threads, busy, kind, refused=done.stderr.strip())
    if done.returncode:
        raise RuntimeError(f"sublayer measure {' '.join(words)} failed:\n{done.stderr}")
    row: dict[str, Any] = json.loads(done.stdout)["models"][0]
    figures = {name: row[name] for name in ("latency", "low", "high", "raw")}
    return Answer(model, threads, busy, kind, **figures, slowdown=row["conditions"]["slowdown"])


def tabulate(answers: Sequence[Answer]) -> list[Cell]:
    cells: dict[tuple[str, int, int], list[Answer]] = {}
    for answer in answers:
        cells.setdefault((answer.model, answer.threads, answer.busy), []).append(answer)
    return [_cell(cells.get((key[0], key[1], 0), []), key, several) for key, several in sorted(cells.items())]


def _cell(quiet: Sequence[Answer], key: tuple[str, int, int], several: Sequence[Answer]) -> Cell:
    truths = [one.latency for one in quiet if one.latency is not None]
    truth = median(truths) if truths else float("nan")
    given = [one for one in several if one.latency is not None]
    near = [abs(one.latency / truth - 1) <= NEAR for one in given if one.latency]
    covered = [one.low <= truth <= one.high for one in given if one.low and one.high]
    wrong = sum(not (close or held) for close, held in zip(near, covered, strict=True))
    return Cell(*key, len(several), len(several) - len(given), sum(near), wrong, sum(covered))


def summary(cells: Sequence[Cell]) -> dict[str, Any]:
    calls, answers = sum(cell.calls for cell in cells), sum(cell.answers for cell in cells)
    near = sum(cell.near for cell in cells)
    return {
        "calls": calls,
        "answers": answers,
        "near": near,
        "wrong": sum(cell.wrong for cell in cells),
        "sound": 1 - (answers - near) / calls,
        "covered": sum(cell.covered for cell in cells) / answers if answers else float("nan"),
    }


def draw(cells: Sequence[Cell]) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for title in ("model", "threads", "busy", "calls", "within 10 %", "refused", "silently wrong", "interval holds it"):
        table.add_column(title, justify="left" if title == "model" else "right")
    for one in cells:
        covered = f"{one.covered} of {one.answers}" if one.answers else "—"
        counts = (one.threads, one.busy, one.calls, one.near, one.refused, one.wrong)
        table.add_row(one.model, *map(str, counts), covered)
    return table


if __name__ == "__main__":
    main()
