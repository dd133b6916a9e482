"""Amounts with units, read and written: `5ms`, `64MB`, `10M`; inside they are seconds, bytes and counts."""

from __future__ import annotations

import math
import re

TIMES = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6}
BYTES = {"B": 1.0, "kB": 1e3, "KB": 1e3, "MB": 1e6, "GB": 1e9, "KiB": 2.0**10, "MiB": 2.0**20, "GiB": 2.0**30}
COUNTS = {"": 1.0, "k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9, "B": 1e9, "T": 1e12}
UNITS: dict[str, tuple[dict[str, float], str]] = {
    "latency": (TIMES, "a time in s, ms or us, such as 5ms or 0.2s"),
    "memory": (BYTES, "bytes with their unit, such as 64MB or 1.5GB"),
}
PLAIN = COUNTS, "a number, such as 250k or 10M"
FORM = re.compile(r"\s*((?:\d+|\d{1,3}(?:,\d{3})+|\d+(?:_\d+)+)(?:\.\d+)?(?:e[+-]?\d+)?)\s*([a-zA-Zµ]*)\s*")


def read(figure: str, given: str | float, name: str = "") -> float:
    """The amount of a figure. A number is in seconds, bytes or units; a text needs its unit."""
    units, expected = UNITS.get(figure, PLAIN)
    name = name or figure
    if not isinstance(given, str):
        amount = float(given)
    else:
        found = FORM.fullmatch(given)
        if not found or found[2] not in units:
            raise ValueError(f"{name}={given}: expected {expected}")
        amount = float(found[1].replace("_", "").replace(",", "")) * units[found[2]]
    if not math.isfinite(amount) or amount <= 0:
        raise ValueError(f"{name}={given}: expected {expected}, greater than 0")
    return amount


def write(figure: str, amount: float) -> str:
    """For people: a latency of 0.00512 → 5.12 ms."""
    units = {"latency": (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)), "memory": (("GB", 1e9), ("MB", 1e6), ("kB", 1e3))}
    counts = (("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3), ("", 1.0))
    known = units.get(figure, counts)
    unit, size = next(((unit, size) for unit, size in known if abs(amount) >= size * 0.9995), known[-1])
    scaled = amount / size
    return f"{scaled:,.0f} {unit}".strip() if abs(scaled) >= 999.5 else f"{scaled:.3g} {unit}".strip()
