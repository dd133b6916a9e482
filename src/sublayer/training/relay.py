"""Progress of a training from the process that trains to the one that launched it, through their file of messages."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from sublayer.runs import Lines, Progress
from sublayer.runs.metrics import MetricsLine, read_line
from sublayer.training.reporters import ProgressReporter

EVERY = 0.5
"""Least number of seconds between two messages about steps."""


class Relay(ProgressReporter):
    def __init__(self, messages: Lines) -> None:
        self.messages, self._last = messages, 0.0

    def start(self, title: str, steps: int | None, tokens: int, seconds: float) -> None:
        self.messages.add({"title": title, "steps": steps, "tokens": tokens, "seconds": seconds})

    def stage(self, number: int, count: int, title: str) -> None:
        self.messages.add({"stage": number, "stages": count, "changes": title})

    def step(self, progress: Progress, spent: float) -> None:
        if time.monotonic() - self._last >= EVERY:
            self._last = time.monotonic()
            self.messages.add({"step": progress.step, "tokens": progress.tokens, "spent": spent})

    def evaluating(self) -> None:
        self.messages.add({"evaluating": True})

    def line(self, line: MetricsLine, seconds: float) -> None:
        self.messages.add({"metrics": line.dump(), "seconds": seconds})


def repeat(message: Mapping[str, Any], reporter: ProgressReporter) -> None:
    """Report what a Relay was told, if a message is of one."""
    if "title" in message:
        reporter.start(*(message[name] for name in ("title", "steps", "tokens", "seconds")))
    elif "stages" in message:
        reporter.stage(message["stage"], message["stages"], message["changes"])
    elif "spent" in message:
        reporter.step(Progress(step=message["step"], tokens=message["tokens"]), message["spent"])
    elif "evaluating" in message:
        reporter.evaluating()
    elif "metrics" in message and (line := read_line(message["metrics"])) is not None:
        reporter.line(line, message["seconds"])
