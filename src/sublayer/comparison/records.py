"""What a comparison writes and others read: table.json, its rows, and the entries of figures.json."""

from __future__ import annotations

import math
from typing import Any

from sublayer.comparison.interval import Interval, SeedInterval
from sublayer.runs.record import Record

FORMAT = 1
INTERVALS = (
    "Student's t over seeds, at 95 %; against the first variant: of differences seed by seed, each verdict by itself, "
    "not corrected for how many there are"
)


class Latency(Record):
    """Seconds: the median of repeats, and its interval."""

    latency: float
    """At the device's quiet pace."""
    low: float
    high: float
    raw: float | None = None
    """As the clock showed it."""


class MeasuredModel(Latency):
    """An entry of figures.json: one model on this machine."""

    memory: int
    """Bytes."""


class StepMemory(Record):
    """An entry of figures.json: training one variant on this machine."""

    memory: int | None
    """Bytes; None where the system does not count them."""


class HeldOutScore(Record):
    """An entry of figures.json: one run on the test split. A text has perplexity and bits, a task accuracies, images
    bits a dimension."""

    loss: float | None = None
    perplexity: float | None = None
    bits_per_byte: float | None = None
    bits_per_dim: float | None = None
    accuracy: float | None = None
    sequence_accuracy: float | None = None


class HeldOutIntervals(Record):
    """Scores on the test split over seeds: of text that no choice was made by."""

    loss: SeedInterval | None = None
    perplexity: SeedInterval | None = None
    bits_per_byte: SeedInterval | None = None
    bits_per_dim: SeedInterval | None = None
    accuracy: SeedInterval | None = None
    sequence_accuracy: SeedInterval | None = None


class Difference(Record):
    """Losses less those of the first variant, seed by seed; without figures where no seed finished with both."""

    mean: float | None = None
    low: float | None = None
    high: float | None = None
    verdict: str = ""


class ComparisonRow(Record):
    """One variant, over its seeds."""

    name: str
    slug: str = ""
    """The name of its runs, without the seed."""
    layout: str = ""
    config: dict[str, Any] | None = None
    params: int | None = None
    decoder_params: int | None = None
    params_off: float | None = None
    """Its share of parameters above the target, where equal parameters were asked for."""
    lr: float | None = None
    seeds: list[int] = []
    runs: list[str] = []
    losses: list[float | None] = []
    """On the validation split at the end, by seed; None where training diverged."""
    mean: float | None = None
    low: float | None = None
    high: float | None = None
    best: SeedInterval | None = None
    """The lowest loss on the way."""
    perplexity: Interval | None = None
    bits_per_byte: SeedInterval | None = None
    bits_per_dim: SeedInterval | None = None
    accuracy: SeedInterval | None = None
    sequence_accuracy: SeedInterval | None = None
    diverged: dict[str, str] = {}
    """Seed → reason."""
    tokens: int | None = None
    """Read in training."""
    minutes: float = 0.0
    """Of training, summed over seeds."""
    tokens_per_second: float | None = None
    test: HeldOutIntervals | None = None
    latency: Latency | None = None
    memory: int | None = None
    """Bytes, at most in use at once."""
    step_memory: int | None = None
    """Bytes by which a process grows that trains it."""
    difference: Difference | None = None
    """To the first variant; None for the first itself."""


LABELS = {
    "mean": "valid loss",
    "perplexity": "valid perplexity",
    "bits_per_byte": "valid bits/byte",
    "bits_per_dim": "valid bits/dim",
    "accuracy": "valid accuracy",
    "sequence_accuracy": "valid sequence accuracy",
    "test.loss": "test loss",
    "test.perplexity": "test perplexity",
    "test.bits_per_byte": "test bits/byte",
    "test.bits_per_dim": "test bits/dim",
    "test.accuracy": "test accuracy",
    "test.sequence_accuracy": "test sequence accuracy",
    "tokens_per_second": "training tokens/s",
    "latency": "latency, measured",
    "memory": "memory, measured",
    "step_memory": "training memory, measured",
    "difference": "valid loss less that of the first variant",
}
"""Figure of a row → its name for people: of which split, or measured."""


class ComparisonTable(Record):
    """table.json."""

    format: int = FORMAT
    metric: str = "valid_loss"
    how: str = ""
    """How intervals are computed."""
    baseline: str | None = None
    """The variant that the others are compared with."""
    labels: dict[str, str] = LABELS
    """Figure of a row → its name for people."""
    rows: list[ComparisonRow]
    asked: dict[str, Any] = {}
    device: dict[str, Any] | None = None

    @property
    def ranked(self) -> list[ComparisonRow]:
        """The lowest loss first; variants that diverged come last."""
        return sorted(self.rows, key=lambda row: (bool(row.diverged), math.inf if row.mean is None else row.mean))
