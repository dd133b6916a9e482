"""A bar over many trainings, with the losses they are at; read from their runs, wherever they are trained."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from sublayer.comparison.folder import Folder
    from sublayer.comparison.request import Request

EVERY = 1.0
"""Seconds between looks."""


class Board:
    """To people only, and gone when all is done."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

        console = Console(stderr=True)
        told = TextColumn("{task.fields[said]}")
        columns = (TextColumn("{task.description}"), BarColumn(), told, TimeRemainingColumn())
        self.bar = Progress(*columns, console=console, transient=True, disable=not console.is_terminal)
        self._over, self._looking = threading.Event(), None

    def begin(self, request: Request, folder: Folder) -> None:
        """Look at the runs of a comparison from now on."""
        if self.bar.disable:
            return
        first = request.seeds[0]
        tried = [(e.name, folder.tuning(e.slug, lr)) for e in request.entries for lr in request.lrs]
        runs = [(f"{e.name} {seed}", folder.run(e.slug, seed)) for seed in request.seeds for e in request.entries]
        runs = tried + [run for run in runs if not request.lrs or not run[1].name.endswith(f"-{first}")]
        self._looking = threading.Thread(target=self._look, args=(runs,), daemon=True)
        self._looking.start()

    def _look(self, runs: list[tuple[str, Path]]) -> None:
        task = self.bar.add_task("training", total=len(runs), said="")
        while not self._over.wait(EVERY):
            seen = {name: standing(path) for name, path in runs}
            going = [f"{name}: {loss:.3f}" for name, (share, loss) in seen.items() if 0 < share < 1]
            done = sum(share == 1 for share, _ in seen.values())
            said = f"{done} of {len(runs)} runs" + (f" · {' · '.join(going[:4])}" if going else "")
            self.bar.update(task, completed=sum(share for share, _ in seen.values()), said=said)

    def __enter__(self) -> Self:
        self.bar.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._over.set()
        if self._looking:
            self._looking.join()
        self.bar.stop()


def standing(path: Path) -> tuple[float, float]:
    """The share of its budget that a run has spent, and its last loss."""
    from sublayer.runs import Run

    run = Run(path)
    try:
        lines = [line for line in run.metrics if "loss" in line]
        if not lines:
            return 0.0, 0.0
        return min(1.0, _share(run.asked["train"], lines[-1], run.seconds)), lines[-1]["loss"]
    except (ValueError, OSError, IndexError):  # it is being written, or moved
        return 0.0, 0.0


def _share(train: dict[str, Any], line: dict[str, Any], seconds: float) -> float:
    spent = {"steps": line["step"], "tokens": line["tokens"], "minutes": seconds / 60}
    return max(spent[name] / train[name] for name in spent if train[name])
