"""How well a proxy ranks models, compared with the truth. In all functions here, higher is better; numpy only.

| figure | question | best |
| --- | --- | --- |
| spearman, with a bootstrap interval | is the whole order right? | 1 |
| kendall | of all pairs, how many more are in order than not? | 1 |
| common_ratio | of the true best k %, how many does the proxy name? | 1 |
| front_distance | how far from the true front is the one the proxy finds? | 0 |
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sublayer.nas import pareto

Array = NDArray[np.float64]

LEAST = 3
"""Least number of models that can be ranked."""
SHARES = (0.1, 0.3, 0.5)
"""Shares of the models for the common ratio (Javaheripi et al. 2022)."""
RESAMPLES = 2000


def ranks(x: ArrayLike) -> Array:
    """Ranks from 0 along the last axis; ties share the mean of their ranks."""
    x = np.asarray(x, dtype=float)
    order = np.argsort(x, axis=-1, kind="stable")
    ordered, n = np.take_along_axis(x, order, -1), np.arange(x.shape[-1])
    starts = np.ones(x.shape, dtype=bool)
    starts[..., 1:] = ordered[..., 1:] != ordered[..., :-1]
    first = np.maximum.accumulate(np.where(starts, n, 0), axis=-1)
    ends = np.roll(starts, -1, axis=-1)
    last = np.flip(np.minimum.accumulate(np.flip(np.where(ends, n, len(n)), -1), axis=-1), -1)
    ranked = np.empty(x.shape)
    np.put_along_axis(ranked, order, (first + last) / 2, -1)
    return ranked


def spearman(x: ArrayLike, y: ArrayLike) -> float:
    """The correlation of ranks; NaN where all values are equal."""
    return float(_correlate(ranks(x), ranks(y)))


def interval(x: ArrayLike, y: ArrayLike, level: float = 0.95, seed: int = 0) -> tuple[float, float]:
    """Interval of Spearman's correlation, by the percentile bootstrap over models."""
    x, y = ranks(x), ranks(y)
    draws = np.random.default_rng(seed).integers(len(x), size=(RESAMPLES, len(x)))
    found = _correlate(ranks(x[draws]), ranks(y[draws]))
    found = found[np.isfinite(found)]
    if not len(found):
        return float("nan"), float("nan")
    low, high = np.quantile(found, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)


def kendall(x: ArrayLike, y: ArrayLike) -> float:
    """τ-b: concordant minus discordant pairs, corrected for ties; NaN where all values are equal."""
    a, b = (np.sign(np.subtract.outer(one, one)) for one in (ranks(x), ranks(y)))
    pairs = np.sqrt((a * a).sum() * (b * b).sum())
    return float((a * b).sum() / pairs) if pairs else float("nan")


def common_ratio(proxy: ArrayLike, truth: ArrayLike, share: float) -> float:
    """The part of the truly best `share` that is among the proxy's best; ties at the border count by their chance."""
    proxy, truth = np.asarray(proxy, dtype=float), np.asarray(truth, dtype=float)
    best = max(1, round(share * len(proxy)))
    return float((_chosen(proxy, best) * _chosen(truth, best)).sum() / best)


def front_distance(proxy: ArrayLike, perplexity: ArrayLike, latency: ArrayLike) -> float:
    """Mean |p − q|/q: p of the proxy's front over latency, q of the nearest in latency on the true one.

    The mean average perplexity difference of LTS, appendix C. Lower perplexity is better. Of two equally near models
    the slower counts, which is the better one.
    """
    perplexity, latency = np.asarray(perplexity, dtype=float), np.asarray(latency, dtype=float)
    found = pareto.front(np.stack([-np.asarray(proxy, dtype=float), latency], axis=1))
    true = pareto.front(np.stack([perplexity, latency], axis=1))
    true = true[np.argsort(-latency[true], kind="stable")]
    gaps = np.abs(np.subtract.outer(latency[found], latency[true]))
    near = gaps <= gaps.min(axis=1, keepdims=True) * (1 + 1e-9)  # whatever the unit of latency
    nearest = perplexity[true[near.argmax(axis=1)]]
    return float((np.abs(perplexity[found] - nearest) / nearest).mean())


def describe(
    proxy: ArrayLike, perplexity: ArrayLike, latency: ArrayLike | None = None, seed: int = 0
) -> dict[str, Any]:
    """All figures of one proxy, as plain data; None where one is not defined."""
    proxy, good = np.asarray(proxy, dtype=float), -np.asarray(perplexity, dtype=float)
    low, high = interval(proxy, good)
    figures = {
        "spearman": spearman(proxy, good),
        "low": low,
        "high": high,
        "kendall": kendall(proxy, good),
        "common": {f"{share:.0%}": common_ratio(proxy, good, share) for share in SHARES},
        "front_distance": None if latency is None else front_distance(proxy, perplexity, latency),
    }
    return {
        name: None if isinstance(value, float) and not np.isfinite(value) else value for name, value in figures.items()
    }


def _correlate(x: Array, y: Array) -> Array:
    """Pearson along the last axis."""
    x, y = x - x.mean(-1, keepdims=True), y - y.mean(-1, keepdims=True)
    spread = np.sqrt((x * x).sum(-1) * (y * y).sum(-1))
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.clip(np.where(spread > 0, (x * y).sum(-1) / spread, np.nan), -1, 1)


def _chosen(value: Array, best: int) -> Array:
    """How much of each model is among the best: 1, 0, or at the border an equal share of the remaining ranks."""
    border = np.sort(value)[-best]
    above, at = value > border, value == border
    return above + at * (best - above.sum()) / at.sum()
