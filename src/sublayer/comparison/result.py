"""SeedResult: the outcome of one training, read from the files of its run."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from statistics import median

from sublayer.executors.trainings import scores, why_diverged
from sublayer.runs import Run


@dataclass(frozen=True)
class SeedResult:
    run: Run

    @property
    def diverged(self) -> str | None:
        return why_diverged(self.run)

    @property
    def loss(self) -> float | None:
        """On the validation split at the end; None if it diverged."""
        return None if self.diverged else scores(self.run)[-1]["valid_loss"]

    @property
    def best(self) -> float | None:
        """The lowest loss on the validation split."""
        return None if self.diverged else min(line["valid_loss"] for line in scores(self.run))

    @property
    def bits_per_byte(self) -> float | None:
        return None if self.diverged else scores(self.run)[-1].get("valid_bits_per_byte")

    @property
    def bits_per_dim(self) -> float | None:
        """Of images, on the validation split at the end."""
        return None if self.diverged else scores(self.run)[-1].get("valid_bits_per_dim")

    @property
    def accuracy(self) -> float | None:
        """Of a task's answers, on the validation split at the end."""
        return None if self.diverged else scores(self.run)[-1].get("valid_accuracy")

    @property
    def sequence_accuracy(self) -> float | None:
        return None if self.diverged else scores(self.run)[-1].get("valid_sequence_accuracy")

    @property
    def tokens(self) -> int:
        """Read in training."""
        return max((line["tokens"] for line in self.run.metrics), default=0)

    @property
    def seconds(self) -> float:
        return max((line["seconds"] for line in self.run.clock), default=0.0)

    @property
    def speed(self) -> float | None:
        """Tokens per second: the median between lines of the clock, so that validation and pauses do not count."""
        tokens = {line["step"]: line["tokens"] for line in self.run.metrics}
        lines = [line for line in self.run.clock if line["step"] in tokens]
        rates = [
            (tokens[b["step"]] - tokens[a["step"]]) / (b["seconds"] - a["seconds"])
            for a, b in pairwise(lines)
            if b["step"] > a["step"] and b["seconds"] > a["seconds"]
        ]
        return median(rates) if rates else None
