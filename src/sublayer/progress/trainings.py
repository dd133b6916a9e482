"""Trainings that run elsewhere, or without a reporter, shown by the files of their runs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sublayer.progress.display import Display
from sublayer.runs import Run
from sublayer.runs.wording import plural

SHOWN = 3
"""Trainings whose losses are shown."""


def watch(display: Display, runs: Sequence[tuple[str, Path]], phase: str = "training") -> None:
    """Show the trainings of these runs from now on, each with its name."""
    seen = {name: progress_of(path) for name, path in runs}
    display.begin(phase, len(runs), sum(share for share, _ in seen.values()), counted=False)

    def look() -> None:
        for name, path in runs:
            if seen[name][0] < 1:
                seen[name] = progress_of(path)
        display.update(sum(share for share, _ in seen.values()), status=describe(seen))

    look()
    display.watch(look)


def describe(seen: dict[str, tuple[float, float]]) -> str:
    """`1 of 3 runs done, gpt2 0: 40 %, loss 2.310`."""
    done = sum(share == 1 for share, _ in seen.values())
    going = [f"{name}: {share:.0%}, loss {loss:.3f}" for name, (share, loss) in seen.items() if 0 < share < 1]
    return ", ".join([f"{done} of {plural(len(seen), 'run')} done", *going[:SHOWN]])


def progress_of(path: Path) -> tuple[float, float]:
    """The share of its budget that a run has spent, and its last loss."""
    run = Run(path)
    try:
        lines = [line for line in run.metrics if "loss" in line]
        if not lines:
            return 0.0, 0.0
        return min(1.0, _share(run.asked["train"], lines[-1], run.seconds)), lines[-1]["loss"]
    except (ValueError, OSError, LookupError, TypeError):  # it is being written, or moved
        return 0.0, 0.0


def _share(train: dict[str, Any], line: dict[str, Any], seconds: float) -> float:
    spent = {"steps": line["step"], "tokens": line["tokens"], "minutes": seconds / 60}
    return max(spent[name] / train[name] for name in spent if train[name])
