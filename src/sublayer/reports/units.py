"""Quantities as people read them: seconds as ms, bytes as MB, counts as M, each column in one unit."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

LADDERS: dict[str, tuple[tuple[float, float, str], ...]] = {
    "seconds": ((0.0, 1e6, "µs"), (1e-4, 1e3, "ms"), (10.0, 1.0, "s")),
    "bytes": ((0.0, 1e-3, "kB"), (1e5, 1e-6, "MB"), (1e10, 1e-9, "GB")),
    "count": ((0.0, 1.0, ""), (1e4, 1e-3, "k"), (1e6, 1e-6, "M"), (1e10, 1e-9, "G"), (1e13, 1e-12, "T")),
    "nats": ((0.0, 1.0, "nats per token"),),
    "plain": ((0.0, 1.0, ""),),
}
"""From which size on, times what, called what."""
KNOWN = {
    "latency": ("latency", "seconds"),
    "memory": ("memory", "bytes"),
    "params": ("parameters", "count"),
    "decoder_params": ("decoder parameters", "count"),
    "flops": ("FLOPs", "count"),
    "tokens": ("tokens", "count"),
    "loss": ("training loss", "nats"),
    "valid_loss": ("validation loss", "nats"),
    "bits_per_byte": ("bits per byte", "plain"),
    "valid_bits_per_byte": ("bits per byte", "plain"),
    "perplexity": ("perplexity", "plain"),
    "valid_perplexity": ("perplexity", "plain"),
}
UNITS = {"s": "seconds", "B": "bytes", "bytes": "bytes"}


@dataclass(frozen=True)
class Scale:
    """How a quantity is shown."""

    name: str
    title: str
    factor: float
    unit: str
    decimals: int

    @property
    def label(self) -> str:
        return f"{self.title} ({self.unit})" if self.unit else self.title

    def shown(self, value: float | None) -> float | None:
        """As a number for a chart, to six digits."""
        return None if value is None or not math.isfinite(value) else float(f"{value * self.factor:.6g}")

    def number(self, value: float | None) -> str:
        """For a table, where the unit is in the heading."""
        if value is None or not math.isfinite(value):
            return "—"
        return f"{value * self.factor:,.{self.decimals}f}"

    def words(self, value: float | None) -> str:
        """For a sentence."""
        return f"{self.number(value)} {self.unit}".strip()


def scale(name: str, values: Iterable[float | None], unit: str = "") -> Scale:
    """The unit in which the largest value is easy to read; four digits of it."""
    title, ladder = KNOWN.get(name, (name.replace("_", " "), UNITS.get(unit, "plain")))
    most = max((abs(value) for value in values if value is not None and math.isfinite(value)), default=1.0)
    factor, sign = [step[1:] for step in LADDERS[ladder] if most >= step[0]][-1]
    whole = most * factor
    decimals = 3 - math.floor(math.log10(whole)) if whole > 0 else 0
    if ladder == "count" and factor == 1.0:
        decimals = 0
    return Scale(name, title, factor, sign or ("" if name in KNOWN else unit), min(max(decimals, 0), 6))


def time(most: float) -> Scale:
    """Of work, which takes longer than a pass: seconds, minutes or hours."""
    if most >= 7200:
        return Scale("seconds", "wall time", 1 / 3600, "hours", 2)
    if most >= 120:
        return Scale("seconds", "wall time", 1 / 60, "minutes", 1)
    return Scale("seconds", "wall time", 1.0, "s", 1)


def percent(predicted: float | None, measured: float | None) -> float | None:
    """Error of a prediction as a share of the measurement."""
    if predicted is None or not measured or not math.isfinite(predicted / measured):
        return None
    return 100 * (predicted / measured - 1)


def signed(value: float | None, decimals: int = 1) -> str:
    """+3.1 % or −0.4 %."""
    if value is None:
        return "—"
    return f"{value:+.{decimals}f}\u00a0%".replace("-", "−")
