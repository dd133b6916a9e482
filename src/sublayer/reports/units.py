"""Quantities as people read them: seconds as ms, bytes as MB, counts as M, each column in one unit.

Every number of a page is rounded here: four digits of a quantity, as many decimals of a score as its interval allows.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

LADDERS: dict[str, tuple[tuple[float, float, str], ...]] = {
    "seconds": ((0.0, 1e6, "µs"), (1e-4, 1e3, "ms"), (10.0, 1.0, "s")),
    "bytes": ((0.0, 1e-3, "kB"), (1e5, 1e-6, "MB"), (1e10, 1e-9, "GB")),
    "count": ((0.0, 1.0, ""), (1e4, 1e-3, "k"), (1e6, 1e-6, "M"), (1e10, 1e-9, "G"), (1e13, 1e-12, "T")),
    "nats": ((0.0, 1.0, "nats per token"),),
    "speed": ((0.0, 1.0, "tokens per second"), (1e4, 1e-3, "k tokens per second"), (1e7, 1e-6, "M tokens per second")),
    "plain": ((0.0, 1.0, ""),),
}
"""From which size on, times what, called what."""
KNOWN = {
    "latency": ("latency", "seconds"),
    "memory": ("memory", "bytes"),
    "step_memory": ("training memory", "bytes"),
    "params": ("parameters", "count"),
    "decoder_params": ("decoder parameters", "count"),
    "flops": ("FLOPs", "count"),
    "tokens": ("tokens", "count"),
    "loss": ("training loss", "nats"),
    "valid_loss": ("validation loss", "nats"),
    "test_loss": ("test loss", "nats"),
    "bits_per_byte": ("bits per byte", "plain"),
    "valid_bits_per_byte": ("validation bits per byte", "plain"),
    "test_bits_per_byte": ("test bits per byte", "plain"),
    "bits_per_dim": ("bits per dimension", "plain"),
    "valid_bits_per_dim": ("validation bits per dimension", "plain"),
    "test_bits_per_dim": ("test bits per dimension", "plain"),
    "perplexity": ("perplexity", "plain"),
    "valid_perplexity": ("validation perplexity", "plain"),
    "tokens_per_second": ("training speed", "speed"),
}
UNITS = {"s": "seconds", "B": "bytes", "bytes": "bytes"}
DIGITS = ",.4~r"
"""Of a quantity in a chart's tooltip, in d3's language."""
DECIMALS = 3
"""Of a loss or a score that has no interval."""
SCORE = f".{DECIMALS}f"


class Interval(Protocol):
    """A mean over seeds, and the ends of its interval where there is one."""

    @property
    def mean(self) -> float | None: ...
    @property
    def low(self) -> float | None: ...
    @property
    def high(self) -> float | None: ...


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
        return self.called("")

    def called(self, how: str) -> str:
        """With what distinguishes it from others of its kind: `latency, predicted (ms)`."""
        title = f"{self.title}, {how}" if how else self.title
        return f"{title} ({self.unit})" if self.unit else title

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


def amount(name: str, value: float) -> str:
    """One quantity in a sentence, in a unit of its own: `10 ms`, `10.83 ms`."""
    known = scale(name, [value])
    number = known.number(value)
    return f"{number.rstrip('0').rstrip('.') if '.' in number else number} {known.unit}".strip()


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
    return "—" if value is None else f"{minus(f'{value:+.{decimals}f}')}\u00a0%"


def score(value: float | None, decimals: int = DECIMALS) -> str:
    """A loss, a correlation or another number without a unit."""
    return "—" if value is None or not math.isfinite(value) else minus(f"{value:.{decimals}f}")


def fact(value: float) -> str:
    """A number of a record, to four digits."""
    return f"{value:,}" if isinstance(value, int) else minus(f"{value:,.4g}")


def spreads(intervals: Sequence[Interval | None], sign: bool = False) -> list[str]:
    """A column of means: `2.178 ± 0.012`, or `[low, high]` behind a mean that is not in the middle.

    The narrowest interval decides the decimals: two digits of its half.
    """
    halves = [one.high - one.low for one in intervals if one and one.low is not None and one.high is not None]
    narrow = min((half / 2 for half in halves if half > 0), default=0.0)
    decimals = min(max(1 - math.floor(math.log10(narrow)), 1), 5) if narrow else DECIMALS
    return ["—" if one is None else _spread(one, decimals, "+" if sign else "") for one in intervals]


def _spread(one: Interval, decimals: int, sign: str) -> str:
    if one.mean is None or not math.isfinite(one.mean):
        return "—"
    mean = f"{one.mean:{sign},.{decimals}f}"
    if one.low is None or one.high is None:
        return minus(mean)
    half = (one.high - one.low) / 2
    if abs(one.high - one.mean - half) <= 0.02 * half:
        return minus(f"{mean} ±\u00a0{half:,.{decimals}f}")
    return minus(f"{mean} [{one.low:{sign},.{decimals}f}, {one.high:{sign},.{decimals}f}]")


def minus(number: str) -> str:
    """With a minus sign in place of a hyphen."""
    return number.replace("-", "−")
