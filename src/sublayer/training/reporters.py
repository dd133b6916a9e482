"""What a training says while it runs: a bar to people, lines of JSON to programs."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from sublayer.data import Data
from sublayer.training.budget import Budget
from sublayer.training.progress import Progress


class ProgressReporter:
    """Says nothing; the others are built on it."""

    def start(self, title: str) -> None: ...

    def step(self, progress: Progress, budget: Budget) -> None:
        """After every step."""

    def line(self, line: dict[str, Any], data: Data) -> None:
        """A line of metrics."""

    def stop(self) -> None: ...


class JsonLines(ProgressReporter):
    """Each line of metrics on standard output."""

    def line(self, line: dict[str, Any], data: Data) -> None:
        sys.stdout.write(json.dumps(line) + "\n")
        sys.stdout.flush()


class Bar(ProgressReporter):
    """A bar with loss, speed and the time that is left; scores on valid stay above it."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

        self.console = Console()
        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.fields[said]}"),
            TimeRemainingColumn(),
        )
        self.bar = Progress(*columns, console=self.console, transient=True)
        self.task, self.said, self._begun = None, "", None

    def start(self, title: str) -> None:
        self.console.print(title, highlight=False)
        self.bar.start()
        self.task = self.bar.add_task("training", total=1.0, said="")

    def step(self, progress: Progress, budget: Budget) -> None:
        assert self.task is not None
        seconds = budget.watch.seconds
        self._begun = self._begun or (seconds, progress.tokens)
        took, tokens = seconds - self._begun[0], progress.tokens - self._begun[1]
        speed = f"{tokens / took:,.0f} tokens/s" if took > 0 else ""
        said = f"step {progress.step:,} · {self.said} · {speed}"
        self.bar.update(self.task, completed=budget.spent(progress), said=said)

    def line(self, line: dict[str, Any], data: Data) -> None:
        if "loss" in line:
            self.said = f"loss {line['loss']:.3f}"
            return
        words = [f"{name.removeprefix('valid_').replace('_', ' ')} {value:.4g}" for name, value in line.items()]
        self.console.print(f"step {line['step']:>6,}  valid: {', '.join(words[2:])}", highlight=False)

    def stop(self) -> None:
        self.bar.stop()


class TensorBoard(ProgressReporter):
    """Files for TensorBoard beside what another teller says."""

    def __init__(self, other: ProgressReporter, folder: Path) -> None:
        self.other, self.writer = other, self.kind()(str(folder))

    @staticmethod
    def kind() -> Any:
        """Of writer, if it is installed."""
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError:
            raise ValueError("train.tensorboard: needs TensorBoard; pip install 'sublayer[track]'") from None
        return SummaryWriter

    def start(self, title: str) -> None:
        self.other.start(title)

    def step(self, progress: Progress, budget: Budget) -> None:
        self.other.step(progress, budget)

    def line(self, line: dict[str, Any], data: Data) -> None:
        self.other.line(line, data)
        for name, value in line.items():
            if name not in ("step", "tokens"):
                self.writer.add_scalar(name, value, line["step"])

    def stop(self) -> None:
        self.other.stop()
        self.writer.close()


def teller(quiet: bool | None) -> ProgressReporter:
    """By default a bar on a terminal and JSON elsewhere; quiet: nothing."""
    if quiet:
        return ProgressReporter()
    return Bar() if sys.stdout.isatty() else JsonLines()
