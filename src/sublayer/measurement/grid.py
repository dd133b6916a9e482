"""Sizes at which sublayers are measured; between two of them, time and memory are nearly linear."""

from __future__ import annotations

WIDTHS = (4, 5, 6, 7)
"""Widths of the stream, in quarters of a power of two: 256, 320, 384, 448, 512. Time is quadratic in them."""
INNER = (4, 6)
"""Inner widths of a feed-forward: 256, 384, 512. Time is linear in them."""


def between(size: int, quarters: tuple[int, ...]) -> list[tuple[int, float]]:
    """The grid points around a size, each with its weight; the size itself if it is one, or is below the first."""
    power = 1 << max(0, size.bit_length() - 3)  # a quarter of the largest power of two up to size
    points = [power * step for step in quarters] + [8 * power]
    if size < 8 or size in points:
        return [(size, 1.0)]
    low = max(point for point in points if point < size)
    high = min(point for point in points if point > size)
    share = (size - low) / (high - low)
    return [(low, 1 - share), (high, share)]
