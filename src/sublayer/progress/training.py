"""What a training shows: a bar or lines about its progress; its metrics as JSON, where a program reads stdout."""

from __future__ import annotations

import json
import sys
from datetime import UTC, datetime

from sublayer.progress.display import Display
from sublayer.progress.estimate import duration
from sublayer.runs import Progress
from sublayer.runs.metrics import MetricsLine, TrainLine
from sublayer.training.reporters import ProgressReporter

FIRST_STEPS, FIRST_SECONDS = 3, 20.0
"""The first estimate is made after so many steps, or after the step that ends so late."""
LONG, VERY_LONG = 10.0, 3600.0
"""Seconds left from which the first estimate is worth a line, and from which it is a warning."""


class JsonLines(ProgressReporter):
    """Each line of metrics on stdout, with the time and, of training, the tokens per second since the line before."""

    def __init__(self) -> None:
        self._before = 0, 0.0

    def start(self, title: str, steps: int | None, tokens: int, seconds: float) -> None:
        self._before = tokens, seconds

    def line(self, line: MetricsLine, seconds: float) -> None:
        shown = {"time": datetime.now(UTC).isoformat(timespec="milliseconds"), **line.dump()}
        tokens, took = line.tokens - self._before[0], seconds - self._before[1]
        if isinstance(line, TrainLine) and tokens > 0 and took > 0:
            shown["tokens_per_second"] = round(tokens / took, 1)
        self._before = line.tokens, seconds
        sys.stdout.write(json.dumps(shown) + "\n")
        sys.stdout.flush()


class TrainingView(ProgressReporter):
    """A bar with loss, speed and the time left; figures on valid are printed above it."""

    def __init__(self, display: Display, others: ProgressReporter | None = None) -> None:
        self.display, self.others = display, others or ProgressReporter()
        self.steps, self.loss, self.reached, self.part = None, "", None, ""
        self._started = display.clock()
        self._begun: tuple[float, int, int] | None = None
        self._estimated, self._where = False, ""

    def start(self, title: str, steps: int | None, tokens: int, seconds: float) -> None:
        self.steps, self._begun, self._estimated = steps, None, False
        self._started = self.display.clock()
        self.others.start(title, steps, tokens, seconds)
        if self.display.terminal:
            self.display.print(title)
        self.display.begin("training", 1.0, counted=False)

    def stage(self, number: int, count: int, title: str) -> None:
        self.others.stage(number, count, title)
        self.part = f"stage {number} of {count}, "
        if self.display.terminal:
            self.display.print(f"stage {number} of {count}: {title}")

    def step(self, progress: Progress, spent: float) -> None:
        self.others.step(progress, spent)
        self.reached, now = progress.step, self.display.clock()
        if self._begun is None:
            if progress.step > 1:  # a run that continues: what it had spent before is known only now
                self.display.begin("training", 1.0, spent, counted=False)
            self._begun = now, progress.tokens, progress.step
        took, tokens = now - self._begun[0], progress.tokens - self._begun[1]
        self._where = f"{self.part}step {progress.step:,}" + (f" of {self.steps:,}" if self.steps else "")
        speed = f"{tokens / took:,.0f} tokens/s" if took > 0 and tokens > 0 else ""
        self.display.update(spent, status=", ".join(filter(None, (self._where, self.loss, speed))))
        if progress.step - self._begun[2] >= FIRST_STEPS or now - self._started >= FIRST_SECONDS:
            self._estimate()

    def evaluating(self) -> None:
        self.others.evaluating()
        self.display.update(self.display.done, status=f"{self._where}, evaluating on valid")

    def line(self, line: MetricsLine, seconds: float) -> None:
        self.others.line(line, seconds)
        self.reached = line.step  # steps may come later than lines, or be left out, from another process
        if isinstance(line, TrainLine):
            self.loss = f"loss {line.loss:.3f}"
        elif self.display.terminal:
            words = [f"{name.replace('_', ' ')} {value:.4g}" for name, value in line.figures.items()]
            sample = "" if line.batches is None else " (a sample)"
            self.display.print(f"step {line.step:>6,}  valid{sample}: {', '.join(words)}")

    def stop(self) -> None:
        self.others.stop()

    def _estimate(self) -> None:
        """Once, after the first steps: how long the rest will take."""
        left = self.display.left
        if self._estimated or left is None:
            return
        self._estimated = True
        if left >= VERY_LONG:
            self.display.print(
                f"this training will take about {duration(left)} more; Ctrl-C stops it, and sublayer resume goes on. A "
                "smaller model, train.steps, train.batch or train.length takes less"
            )
        elif left >= LONG and not self.display.terminal:
            self.display.show_line()


def training_view(display: Display) -> TrainingView:
    """On stdout, where that is not a terminal, metrics are JSON."""
    return TrainingView(display, None if display.quiet or sys.stdout.isatty() else JsonLines())
