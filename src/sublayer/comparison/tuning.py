"""Learning rates: each is tried with the first seed, and each variant takes its best for all seeds.

The run of the best is not trained again: it moves to where the first seed's run belongs.
"""

from __future__ import annotations

from pathlib import Path

from sublayer.comparison.folder import ComparisonFolder
from sublayer.comparison.request import ComparisonRequest, ResolvedVariant
from sublayer.comparison.result import SeedResult
from sublayer.executors.pool import Pool
from sublayer.executors.trainings import train_all
from sublayer.runs import Run


def tune(request: ComparisonRequest, folder: ComparisonFolder, pool: Pool) -> list[float | None]:
    """The learning rate of each variant; None: its own."""
    if not request.lrs:
        return [None] * len(request.variants)
    seed = request.seeds[0]
    wanted = [(variant, lr) for lr in request.lrs for variant in request.variants]
    tasks = [request.task(variant, run_path(folder, variant, lr, seed), seed, lr) for variant, lr in wanted]
    runs = dict(train_all(pool, tasks))
    losses = {(variant.slug, lr): SeedResult(runs[index]).loss for index, (variant, lr) in enumerate(wanted)}
    return [_chosen(request, folder, variant, losses) for variant in request.variants]


def _chosen(
    request: ComparisonRequest,
    folder: ComparisonFolder,
    variant: ResolvedVariant,
    losses: dict[tuple[str, float], float | None],
) -> float:
    tried = {lr: loss for lr in request.lrs if (loss := losses[variant.slug, lr]) is not None}
    if not tried:
        rates = ", ".join(f"{lr:g}" for lr in request.lrs)
        raise ValueError(f"{variant.name}: diverged with every learning rate ({rates}); try lower ones")
    best, seed = min(tried, key=lambda lr: tried[lr]), request.seeds[0]
    tried_path, final = folder.tuning(variant.slug, best), folder.run(variant.slug, seed)
    if tried_path.exists():
        final.parent.mkdir(parents=True, exist_ok=True)
        tried_path.rename(final)
    return best


def run_path(folder: ComparisonFolder, variant: ResolvedVariant, lr: float, seed: int) -> Path:
    """Where the run with this rate is: already moved, if it was found to be the best."""
    final = folder.run(variant.slug, seed)
    moved = (final / "run.json").exists() and Run.open(final).asked["train"]["lr"] == lr
    return final if moved else folder.tuning(variant.slug, lr)
