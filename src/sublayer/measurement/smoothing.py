"""Smoothing: a curve through the times of different sizes.

Times depend on sizes by a constant, the widths and their products. The noisier a device is, the more a reading is moved
to the fitted curve; on a quiet one, readings stay as they are.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

LEAST = 8
"""Least number of sizes for a fit."""
SWEEPS = 20
OUTLIER = 2.0
"""Residuals above this many times the median one get less weight."""


def deviation(readings: Sequence[Sequence[float]]) -> float:
    """Standard deviation, in logarithms, of the mean of two readings of the same model; from those that have two."""
    off = [abs(math.log(each[1] / each[0])) for each in readings if len(each) > 1]
    # Two readings differ by √2 deviations of one, and their mean has 1/√2 of it.
    return float(np.median(off) / 0.6745 / 2) if off else 0.0


def smooth(sizes: Sequence[tuple[int, int | None]], seconds: Sequence[float], noise: float) -> list[float]:
    """Each time moved towards the curve through all. sizes: (dim, inner). noise: deviation of a time, in logarithms."""
    found = np.array(seconds)
    if len(found) < LEAST or not (found > 0).all():
        return list(seconds)
    curve = _fit(_ways(sizes), found)
    if not (curve > 0).all():
        return list(seconds)
    off = np.log(found / curve)
    true = max(0.0, float(np.median(np.abs(off)) / 0.6745) ** 2 - noise**2)
    trust = true / (true + noise**2) if noise else 1.0
    return [float(value) for value in curve * np.exp(trust * off)]


def _ways(sizes: Sequence[tuple[int, int | None]]) -> np.ndarray:
    """The terms of the fit, one column each."""
    dim = np.array([float(d) for d, _ in sizes])
    inner = dim if sizes[0][1] is None else np.array([float(f or 0) for _, f in sizes])
    columns = (
        [np.ones_like(dim), dim, dim * inner] if sizes[0][1] is None else [np.ones_like(dim), dim, inner, dim * inner]
    )
    return np.stack(columns, axis=1)


def _fit(ways: np.ndarray, seconds: np.ndarray) -> np.ndarray:
    """Least squares of relative errors, outliers down-weighted; terms with a negative coefficient are dropped."""
    weights = np.ones_like(seconds)
    used = list(range(ways.shape[1]))
    curve = seconds
    for _ in range(SWEEPS):
        rows = ways * (weights / curve)[:, None]
        shares = np.linalg.lstsq(rows[:, used], weights * seconds / curve, rcond=None)[0]
        if (shares < 0).any() and len(used) > 1:
            used.pop(int(np.argmin(shares * ways[:, used].mean(0))))
            continue
        curve = ways[:, used] @ shares
        off = np.abs(np.log(seconds / curve))
        limit = OUTLIER * max(float(np.median(off)), 1e-6)
        weights = np.minimum(1.0, limit / np.maximum(off, limit)) ** 0.5
    return curve
