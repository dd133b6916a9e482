"""Who is informed while a model is trained. This reporter is silent; `sublayer.progress` has one that shows a bar."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sublayer.runs import Progress
from sublayer.runs.metrics import MetricsLine


class ProgressReporter:
    """Reports nothing; the base of the others."""

    def start(self, title: str, steps: int | None, tokens: int, seconds: float) -> None:
        """Training begins, or continues after so many tokens and seconds. steps: the budget, if it is one of steps."""

    def stage(self, number: int, count: int, title: str) -> None:
        """A stage begins or goes on, of a training that has several; title: what it changes."""

    def step(self, progress: Progress, spent: float) -> None:
        """After every step. spent: the share of the budget, from 0 to 1."""

    def evaluating(self) -> None:
        """An evaluation on valid begins; it ends with its line."""

    def line(self, line: MetricsLine, seconds: float) -> None:
        """A line of metrics, after so many seconds of training."""

    def stop(self) -> None: ...


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

    def start(self, title: str, steps: int | None, tokens: int, seconds: float) -> None:
        self.other.start(title, steps, tokens, seconds)

    def stage(self, number: int, count: int, title: str) -> None:
        self.other.stage(number, count, title)

    def step(self, progress: Progress, spent: float) -> None:
        self.other.step(progress, spent)

    def evaluating(self) -> None:
        self.other.evaluating()

    def line(self, line: MetricsLine, seconds: float) -> None:
        self.other.line(line, seconds)
        for name, value in line.dump().items():
            if name not in ("step", "tokens"):
                self.writer.add_scalar(name, value, line.step)

    def stop(self) -> None:
        self.other.stop()
        self.writer.close()
