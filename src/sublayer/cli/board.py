"""A progress bar over the trainings of a comparison, with their current losses, read from the files of their runs."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from sublayer.comparison.folder import ComparisonFolder
    from sublayer.comparison.request import ComparisonRequest

INTERVAL = 1.0
"""Seconds between updates."""


class Board:
    """Shown on a terminal only; removed at the end."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

        console = Console(stderr=True)
        status = TextColumn("{task.fields[status]}")
        columns = (TextColumn("{task.description}"), BarColumn(), status, TimeRemainingColumn())
        self.bar = Progress(*columns, console=console, transient=True, disable=not console.is_terminal)
        self._finished = threading.Event()
        self._watcher: threading.Thread | None = None
        self.folder = Path()

    def begin(self, request: ComparisonRequest, folder: ComparisonFolder) -> None:
        """Show the runs of a comparison from now on."""
        self.folder = folder.path
        if self.bar.disable:
            return
        first = request.seeds[0]
        tried = [(e.name, folder.tuning(e.slug, lr)) for e in request.variants for lr in request.lrs]
        runs = [(f"{e.name} {seed}", folder.run(e.slug, seed)) for seed in request.seeds for e in request.variants]
        runs = tried + [run for run in runs if not request.lrs or not run[1].name.endswith(f"-{first}")]
        self._watcher = threading.Thread(target=self._watch, args=(runs,), daemon=True)
        self._watcher.start()

    def _watch(self, runs: list[tuple[str, Path]]) -> None:
        task = self.bar.add_task("training", total=len(runs), status="")
        while not self._finished.wait(INTERVAL):
            seen = {name: progress_of(path) for name, path in runs}
            going = [f"{name}: {loss:.3f}" for name, (share, loss) in seen.items() if 0 < share < 1]
            done = sum(share == 1 for share, _ in seen.values())
            status = f"{done} of {len(runs)} runs" + (f" · {' · '.join(going[:4])}" if going else "")
            self.bar.update(task, completed=sum(share for share, _ in seen.values()), status=status)

    def __enter__(self) -> Self:
        self.bar.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._finished.set()
        if self._watcher:
            self._watcher.join()
        self.bar.stop()


def progress_of(path: Path) -> tuple[float, float]:
    """The share of its budget that a run has spent, and its last loss."""
    from sublayer.runs import Run

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
