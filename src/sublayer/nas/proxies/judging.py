"""How well each proxy ranks a set of models whose perplexity is known."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from sublayer.nas import ranking
from sublayer.nas.proxies.base import find
from sublayer.nas.proxies.records import ModelPoints, ProxyRanking, RankedProxy, RankedSet, SkippedSet
from sublayer.runs.wording import plural


@dataclass(frozen=True)
class RankedModels:
    """A set of trained models; each figure is a list with one entry per model."""

    name: str
    names: Sequence[str]
    perplexity: Sequence[float]
    scores: Mapping[str, Sequence[float | None]]
    """By proxy; None where a model has no score."""
    latency: Sequence[float] | None = None
    """Seconds; None unless known for all."""
    seconds: Mapping[str, float] | None = None
    """Mean time of each proxy for a model."""
    dropped: int = 0
    """Number of models left out because their perplexity is unknown."""

    def __len__(self) -> int:
        return len(self.perplexity)

    def judge(self) -> RankedSet:
        """The figures of every proxy, the best first, and the points for charts."""
        figures = [self._judge(name) for name in self.scores]
        return RankedSet(
            set=self.name,
            models=len(self),
            dropped=self.dropped,
            proxies=sorted(figures, key=lambda one: math.inf if one.spearman is None else -one.spearman),
            points=ModelPoints(
                name=list(self.names),
                ppl=list(self.perplexity),
                latency=None if self.latency is None else list(self.latency),
                scores={name: list(values) for name, values in self.scores.items()},
            ),
        )

    def _judge(self, name: str) -> RankedProxy:
        proxy, scores = find(name), self.scores[name]
        known = [n for n, value in enumerate(scores) if value is not None]
        ranked = RankedProxy(
            name=name,
            higher=proxy.higher,
            needs=proxy.needs,
            cite=proxy.cite,
            models=len(known),
            seconds=(self.seconds or {}).get(name),
        )
        if len(known) < ranking.LEAST:
            return ranked
        sign = 1.0 if proxy.higher else -1.0
        score = sign * np.array([scores[n] for n in known], dtype=float)
        latency = None if self.latency is None else np.array(self.latency)[known]
        return ranked.model_copy(update=ranking.describe(score, np.array(self.perplexity)[known], latency))


def judge(sets: Sequence[RankedModels], of: str) -> ProxyRanking:
    """Judge each set by itself; those too small to rank are listed as skipped."""
    ranked = [one for one in sets if len(one) >= ranking.LEAST]
    if not ranked:
        most = max((len(one) for one in sets), default=0)
        raise ValueError(
            f"{of}: {plural(most, 'model')} with a perplexity, at least {ranking.LEAST} are needed to rank them; add "
            "some"
        )
    skipped = [SkippedSet(set=one.name, models=len(one)) for one in sets if len(one) < ranking.LEAST]
    return ProxyRanking(of=of, sets=[one.judge() for one in ranked], skipped=skipped)
