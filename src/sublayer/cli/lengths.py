"""`sublayer compare --lengths`: the lengths as they are typed, and their figures as tables."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sublayer.comparison import LengthTable
    from sublayer.comparison.length_table import LengthPoint

LENGTH = re.compile(r"(\d{1,9})(k?)", re.IGNORECASE)
K = 1024
"""Lengths are powers of two as a rule; elsewhere (--tokens 500k) k is 1,000."""


def read_lengths(text: str) -> list[int]:
    """`512,2k` → [512, 2048]."""
    found = [LENGTH.fullmatch(word.strip()) for word in text.split(",")]
    lengths = [int(one[1]) * (K if one[2] else 1) for one in found if one]
    if len(lengths) < len(found) or not all(lengths):
        raise ValueError(f"--lengths {text!r}: expected whole numbers of at least 1 with commas, such as 512,2k,8k")
    return lengths


def shown(length: int) -> str:
    """As it may be typed: 2048 → 2k."""
    return f"{length // K}k" if length % K == 0 else str(length)


def print_lengths(table: LengthTable, folder: str) -> None:
    """A table for each figure: variants by lengths, and the power of the length."""
    from rich.console import Console

    from sublayer.cli.words import figures_table
    from sublayer.runs.wording import command

    console = Console()
    for title, name in (
        ("loss on valid", "loss"),
        ("time of a pass over one row, in ms", "latency"),
        ("memory of that pass, in MB", "memory"),
        (f"memory of training, about {table.step_tokens:,} tokens a step at every length, in MB", "step_memory"),
    ):
        fitted = [getattr(row.exponents, name, None) for row in table.rows]
        last = ("power",) if any(power is not None for power in fitted) else ()
        made = figures_table(("variant",), (*map(shown, table.lengths), *last))
        for row, power in zip(table.rows, fitted, strict=True):
            end = ("—" if power is None else f"{power:z.2f}",) if last else ()
            made.add_row(row.name, *(_figure(point, name) for point in row.points), *end)
        console.print(f"{title}:", highlight=False)
        console.print(made)
        print()
    print("power: figures grow as the length to this power (least squares on logarithms).")
    print(*_diverged(table), sep="\n", end="")
    print(f"{command('report', folder)} · {command('report', f'{folder}/{table.folders[str(table.lengths[-1])]}')}")


def _figure(point: LengthPoint, name: str) -> str:
    from sublayer.comparison.length_table import figure

    value = figure(point, name)
    if value is None:
        return "—"
    if name == "loss":
        half = point.loss and point.loss.half
        return f"{value:.3f}" if half is None else f"{value:.3f} ± {half:.3f}"
    return f"{1e3 * value:.2f}" if name == "latency" else f"{value / 1e6:.1f}"


def _diverged(table: LengthTable) -> list[str]:
    return [
        f"{row.name}, length {point.length:,}, seed {seed}: {why}\n"
        for row in table.rows
        for point in row.points
        for seed, why in point.diverged.items()
    ]
