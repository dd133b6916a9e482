"""Learning rates: each is tried with the first seed, and each variant takes its best for all seeds.

The run of the best is not trained again: it moves to where the first seed's run belongs.
"""

from __future__ import annotations

from pathlib import Path

from sublayer.comparison.folder import Folder
from sublayer.comparison.request import Entry, Request
from sublayer.comparison.result import Result
from sublayer.executors.pool import Pool
from sublayer.executors.trainings import train_all
from sublayer.runs import Run


def tune(request: Request, folder: Folder, pool: Pool) -> list[float | None]:
    """The learning rate of each variant; None: its own."""
    if not request.lrs:
        return [None] * len(request.entries)
    seed = request.seeds[0]
    wanted = [(entry, lr) for lr in request.lrs for entry in request.entries]
    tasks = [request.task(entry, _place(folder, entry, lr, seed), seed, lr) for entry, lr in wanted]
    runs = dict(train_all(pool, tasks))
    losses = {(entry.slug, lr): Result(runs[index]).loss for index, (entry, lr) in enumerate(wanted)}
    return [_chosen(request, folder, entry, losses) for entry in request.entries]


def _chosen(request: Request, folder: Folder, entry: Entry, losses: dict[tuple[str, float], float | None]) -> float:
    tried = {lr: loss for lr in request.lrs if (loss := losses[entry.slug, lr]) is not None}
    if not tried:
        rates = ", ".join(f"{lr:g}" for lr in request.lrs)
        raise ValueError(f"{entry.name}: diverged with every learning rate ({rates}); try lower ones")
    best, seed = min(tried, key=lambda lr: tried[lr]), request.seeds[0]
    place, final = folder.tuning(entry.slug, best), folder.run(entry.slug, seed)
    if place.exists():
        final.parent.mkdir(parents=True, exist_ok=True)
        place.rename(final)
    return best


def _place(folder: Folder, entry: Entry, lr: float, seed: int) -> Path:
    """Where the run with this rate is: already moved, if it was found to be the best."""
    final = folder.run(entry.slug, seed)
    moved = (final / "run.json").exists() and Run.open(final).asked["train"]["lr"] == lr
    return final if moved else folder.tuning(entry.slug, lr)
