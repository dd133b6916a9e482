"""Pareto fronts of points; lower is better in every coordinate.

One point dominates another if it is nowhere greater and somewhere smaller; equal points do not dominate each other, so
all of them are on the front.
"""

from __future__ import annotations

import bisect
import math
from collections.abc import Iterator

import numpy as np
from numpy.typing import ArrayLike, NDArray

BLOCK = 256
"""Points compared at a time, so that the table of comparisons stays in the cache."""


def front(points: ArrayLike) -> NDArray[np.intp]:
    """Indices of the points that no other dominates, in order."""
    # In sorted order, a point comes after all that dominate it.
    points, index = np.unique(_table(points), axis=0, return_inverse=True)
    nondominated = np.empty(0, dtype=np.intp)
    for start in range(0, len(points), BLOCK):
        block = np.arange(start, min(start + BLOCK, len(points)))
        others = np.concatenate([nondominated, block])
        not_above = np.ones((len(block), len(others)), dtype=bool)
        for column in points.T:
            not_above &= column[others] <= column[block, None]
        nondominated = np.concatenate([nondominated, block[not_above.sum(1) == 1]])  # itself alone
    best = np.zeros(len(points), dtype=bool)
    best[nondominated] = True
    return np.flatnonzero(best[index])


def fronts(points: ArrayLike) -> Iterator[NDArray[np.intp]]:
    """The front, the front of the rest, and so on; indices as in `points`."""
    points = _table(points)
    left = np.arange(len(points))
    while len(left):
        first = front(points[left])
        yield left[first]
        left = np.delete(left, first)


def spread(points: ArrayLike, count: int) -> NDArray[np.intp]:
    """`count` points far apart: the best in each coordinate, then again and again the one farthest from those chosen.

    Distances are measured with every coordinate scaled to its range. Equal points are chosen last.
    """
    points = _table(points)
    if len(points) <= count:
        return np.arange(len(points))
    low, high = points.min(0), points.max(0)
    scaled = (points - low) / np.where(high > low, high - low, 1.0)
    chosen = list(dict.fromkeys(int(at) for at in scaled.argmin(0)))[:count]
    apart = np.min([np.linalg.norm(scaled - scaled[at], axis=1) for at in chosen], axis=0)
    while len(chosen) < count:
        apart[chosen] = -1.0
        farthest = int(apart.argmax())
        chosen.append(farthest)
        apart = np.minimum(apart, np.linalg.norm(scaled - scaled[farthest], axis=1))
    return np.sort(np.array(chosen, dtype=np.intp))


def hypervolume(points: ArrayLike, reference: ArrayLike) -> float:
    """How much of the space below the reference the points dominate; for two or three coordinates."""
    points, worst = _table(points), np.asarray(reference, dtype=float)
    if points.shape[1] not in (2, 3) or worst.shape != points.shape[1:]:
        raise ValueError(
            f"hypervolume: {points.shape[1]} coordinates and a reference of {worst.size}; expected two or three of each"
        )
    points = points[(points < worst).all(1)]
    points = points[front(points)]
    if points.shape[1] == 2:
        return Stairs.of(points, worst).area
    return _volume(points, worst)


def share(points: ArrayLike, ideal: ArrayLike, reference: ArrayLike) -> float:
    """The hypervolume as a share of the box between the best and the worst."""
    best, worst = np.asarray(ideal, dtype=float), np.asarray(reference, dtype=float)
    size = np.where(worst > best, worst - best, 1.0)
    return hypervolume((_table(points) - best) / size, (worst - best) / size)


def _volume(points: NDArray[np.float64], worst: NDArray[np.float64]) -> float:
    """Slices between the heights of the points; a slice's area is that of the points below it."""
    points = points[np.argsort(points[:, 2], kind="stable")]
    stairs = Stairs(*worst[:2].tolist())
    volume = 0.0
    heights = [*points[:, 2].tolist(), float(worst[2])]
    for n, (x, y, height) in enumerate(points.tolist()):
        stairs.add(x, y)
        volume += stairs.area * (heights[n + 1] - height)
    return volume


class Stairs:
    """A front in two coordinates that grows, and the area it dominates: x rises, y falls."""

    def __init__(self, worst_x: float, worst_y: float) -> None:
        self.xs, self.ys = [-math.inf, worst_x], [worst_y, -math.inf]
        self.area = 0.0

    @classmethod
    def of(cls, points: NDArray[np.float64], worst: NDArray[np.float64]) -> Stairs:
        stairs = cls(*worst.tolist())
        for x, y in points.tolist():
            stairs.add(x, y)
        return stairs

    def add(self, x: float, y: float) -> None:
        first = bisect.bisect_left(self.xs, x)
        if self.ys[first - 1] <= y or (self.xs[first] == x and self.ys[first] <= y):
            return
        last = first
        left, ceiling = x, self.ys[first - 1]
        while True:
            self.area += (self.xs[last] - left) * (ceiling - y)
            if self.ys[last] < y:
                break
            left, ceiling = self.xs[last], self.ys[last]
            last += 1
        self.xs[first:last], self.ys[first:last] = [x], [y]


def _table(points: ArrayLike) -> NDArray[np.float64]:
    table = np.asarray(points, dtype=float)
    if table.ndim != 2:
        raise ValueError(f"points: expected a table of points by coordinates, got the shape {table.shape}")
    if np.isnan(table).any():
        raise ValueError("points: one of them is not a number; leave out what could not be evaluated")
    return table
