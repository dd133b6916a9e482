"""Progress of a training: a bar on a terminal, lines of JSON for programs."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from sublayer.runs import Progress
from sublayer.runs.metrics import MetricsLine, TrainLine
from sublayer.training.budget import Budget


class ProgressReporter:
    """Reports nothing; the base of the others."""

    def start(self, title: str) -> None: ...

    def step(self, progress: Progress, budget: Budget) -> None:
        """After every step."""

    def line(self, line: MetricsLine) -> None:
        """A line of metrics."""

    def stop(self) -> None: ...


class JsonLines(ProgressReporter):
    """Each line of metrics on standard output."""

    def line(self, line: MetricsLine) -> None:
        sys.stdout.write(json.dumps(line.dump()) + "\n")
        sys.stdout.flush()


class Bar(ProgressReporter):
    """A bar with loss, speed and the time left; figures on valid are printed above it."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, TextColumn, TimeRemainingColumn
        from rich.progress import Progress as RichProgress

        self.console = Console()
        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.fields[status]}"),
            TimeRemainingColumn(),
        )
        self.bar = RichProgress(*columns, console=self.console, transient=True)
        self.task, self.loss, self._begun = None, "", None

    def start(self, title: str) -> None:
        self.console.print(title, highlight=False)
        self.bar.start()
        self.task = self.bar.add_task("training", total=1.0, status="")

    def step(self, progress: Progress, budget: Budget) -> None:
        assert self.task is not None
        seconds = budget.watch.seconds
        self._begun = self._begun or (seconds, progress.tokens)
        took, tokens = seconds - self._begun[0], progress.tokens - self._begun[1]
        speed = f"{tokens / took:,.0f} tokens/s" if took > 0 else ""
        status = f"step {progress.step:,} · {self.loss} · {speed}"
        self.bar.update(self.task, completed=budget.spent(progress), status=status)

    def line(self, line: MetricsLine) -> None:
        if isinstance(line, TrainLine):
            self.loss = f"loss {line.loss:.3f}"
            return
        words = [f"{name.replace('_', ' ')} {value:.4g}" for name, value in line.figures.items()]
        self.console.print(f"step {line.step:>6,}  valid: {', '.join(words)}", highlight=False)

    def stop(self) -> None:
        self.bar.stop()


class TensorBoard(ProgressReporter):
    """Writes files for TensorBoard, beside another reporter."""

    def __init__(self, other: ProgressReporter, folder: Path) -> None:
        self.other, self.writer = other, self.kind()(str(folder))

    @staticmethod
    def kind() -> Any:
        """The class that writes them, if TensorBoard is installed."""
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError:
            raise ValueError("train.tensorboard: needs TensorBoard; pip install 'sublayer[track]'") from None
        return SummaryWriter

    def start(self, title: str) -> None:
        self.other.start(title)

    def step(self, progress: Progress, budget: Budget) -> None:
        self.other.step(progress, budget)

    def line(self, line: MetricsLine) -> None:
        self.other.line(line)
        for name, value in line.dump().items():
            if name not in ("step", "tokens"):
                self.writer.add_scalar(name, value, line.step)

    def stop(self) -> None:
        self.other.stop()
        self.writer.close()


def make_reporter(quiet: bool | None) -> ProgressReporter:
    """By default a bar on a terminal and JSON elsewhere; quiet: nothing."""
    if quiet:
        return ProgressReporter()
    return Bar() if sys.stdout.isatty() else JsonLines()
