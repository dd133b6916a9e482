"""How well one number ranks what another says in truth. In all functions here, higher is better; numpy only.

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
"""Models below which an order says nothing."""
SHARES = (0.1, 0.3, 0.5)
"""Of the models, whose common ratio is told (Javaheripi et al. 2022)."""
RESAMPLES = 2000
NOTHING: dict[str, Any] = dict.fromkeys(("spearman", "low", "high", "kendall", "common", "front_distance"))
"""What `describe` tells of too few models."""


def ranks(x: ArrayLike) -> Array:
    """From 0, along the last axis; those that tie share the mean of their ranks."""
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
    """The correlation of ranks; NaN where all are alike."""
    return float(_correlate(ranks(x), ranks(y)))


def interval(x: ArrayLike, y: ArrayLike, level: float = 0.95, seed: int = 0) -> tuple[float, float]:
    """Of Spearman, by the percentile bootstrap: models are drawn again, with replacement."""
    x, y = ranks(x), ranks(y)
    draws = np.random.default_rng(seed).integers(len(x), size=(RESAMPLES, len(x)))
    found = _correlate(ranks(x[draws]), ranks(y[draws]))
    found = found[np.isfinite(found)]
    if not len(found):
        return float("nan"), float("nan")
    low, high = np.quantile(found, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)


def kendall(x: ArrayLike, y: ArrayLike) -> float:
    """τ-b: pairs in order less pairs that are not, with ties counted out; NaN where all are alike."""
    a, b = (np.sign(np.subtract.outer(one, one)) for one in (ranks(x), ranks(y)))
    pairs = np.sqrt((a * a).sum() * (b * b).sum())
    return float((a * b).sum() / pairs) if pairs else float("nan")


def common_ratio(proxy: ArrayLike, truth: ArrayLike, share: float) -> float:
    """Of the truly best `share`, what part is among the proxy's best; of ties at the border, what chance would give."""
    proxy, truth = np.asarray(proxy, dtype=float), np.asarray(truth, dtype=float)
    best = max(1, round(share * len(proxy)))
    return float((_chosen(proxy, best) * _chosen(truth, best)).sum() / best)


def front_distance(proxy: ArrayLike, perplexity: ArrayLike, latency: ArrayLike) -> float:
    """Mean |p − q|/q: p of the proxy's front over latency, q of the nearest in latency on the true one.

    It is the mean average perplexity difference of LTS, appendix C. Lower perplexity is better. Of two equally near
    ones, the slower counts, which is the better model.
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
    told = {
        "spearman": spearman(proxy, good),
        "low": low,
        "high": high,
        "kendall": kendall(proxy, good),
        "common": {f"{share:.0%}": common_ratio(proxy, good, share) for share in SHARES},
        "front_distance": None if latency is None else front_distance(proxy, perplexity, latency),
    }
    return {
        name: None if isinstance(value, float) and not np.isfinite(value) else value for name, value in told.items()
    }


def _correlate(x: Array, y: Array) -> Array:
    """Pearson along the last axis."""
    x, y = x - x.mean(-1, keepdims=True), y - y.mean(-1, keepdims=True)
    spread = np.sqrt((x * x).sum(-1) * (y * y).sum(-1))
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.clip(np.where(spread > 0, (x * y).sum(-1) / spread, np.nan), -1, 1)


def _chosen(value: Array, best: int) -> Array:
    """How much of each is among the best: 1, 0, or at the border an equal share of the room that is left."""
    border = np.sort(value)[-best]
    above, at = value > border, value == border
    return above + at * (best - above.sum()) / at.sum()
