"""What `sublayer compare` and `sublayer reproduce` show while they work, and when they are stopped."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from sublayer.cli.stopping import same_command
from sublayer.progress import Display

if TYPE_CHECKING:
    from sublayer.comparison.folder import ComparisonFolder
    from sublayer.comparison.request import ComparisonRequest


class ComparisonView:
    """Trainings by the files of their runs, then the phases after them."""

    def __init__(self, display: Display) -> None:
        self.display = display
        self.folder: Path | None = None
        """None before the comparison begins."""
        self.of = ""
        """Which of several comparisons, behind the name of each phase."""

    def begin_length(self, length: int, done: int, total: int) -> None:
        """The next of several comparisons, in a folder of its own."""
        self.of = f", length {length:,} ({done + 1} of {total})"
        self.display.begin(f"starting{self.of}")

    def start(self, request: ComparisonRequest, folder: ComparisonFolder) -> None:
        from sublayer.comparison.tuning import run_path
        from sublayer.progress.trainings import watch

        self.folder, (first, *others) = folder.path.parent if self.of else folder.path, request.seeds
        pairs = [(one, lr) for lr in request.lrs for one in request.variants]
        tried = [(f"{one.name} {lr:g}", run_path(folder, one, lr, first)) for one, lr in pairs]
        # With several learning rates, the first seed's run is the best of those that were tried.
        seeds = others if request.lrs else request.seeds
        runs = [(f"{one.name} {seed}", folder.run(one.slug, seed)) for seed in seeds for one in request.variants]
        watch(self.display, tried + runs, f"training{self.of}")

    def phase(self, name: str, done: int, total: int) -> None:
        self.display.reach(f"{name}{self.of}", done, total)

    def stopped(self) -> str:
        """What is saved, and how to go on."""
        if self.folder is None:
            return f"stopped; nothing is saved yet. {same_command()}"
        return f"stopped; trainings and figures so far are saved in {self.folder}. {same_command()}"
