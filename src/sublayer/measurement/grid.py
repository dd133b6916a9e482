"""Sizes at which sublayers are measured; between two of them time and memory are nearly straight lines."""

from __future__ import annotations

WIDTHS = (4, 5, 6, 7)
"""Of the stream, in quarters of a power of two: 256, 320, 384, 448, 512. Time goes with the square of them."""
INNER = (4, 6)
"""Between the matrices of a feed-forward: 256, 384, 512. Time goes straight up with them."""


def between(size: int, quarters: tuple[int, ...]) -> list[tuple[int, float]]:
    """The rungs beside a size, with the weight of each; one rung for a size that is one, or is below the first."""
    power = 1 << max(0, size.bit_length() - 3)  # a quarter of the largest power of two up to size
    rungs = [power * step for step in quarters] + [8 * power]
    if size < 8 or size in rungs:
        return [(size, 1.0)]
    low = max(rung for rung in rungs if rung < size)
    high = min(rung for rung in rungs if rung > size)
    share = (size - low) / (high - low)
    return [(low, 1 - share), (high, share)]
