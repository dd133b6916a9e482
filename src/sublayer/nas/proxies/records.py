"""ranking.json of a study of proxies, as it is written and read."""

from __future__ import annotations

from typing import Any

from sublayer.runs.record import Record


class RankedProxy(Record):
    """How well one proxy ranks a set of models."""

    name: str
    higher: bool | None = None
    """Whether a higher score means a better model."""
    needs: str | None = None
    cite: str | None = None
    models: int = 0
    """Models that have a score."""
    seconds: float | None = None
    """Per model, on average."""
    spearman: float | None = None
    low: float | None = None
    high: float | None = None
    """The interval of Spearman's correlation, by bootstrap over models."""
    kendall: float | None = None
    common: dict[str, float | None] | None = None
    """Share of the best models that the proxy finds, by how many are called best."""
    front_distance: float | None = None


class ModelPoints(Record):
    """One entry a model, for charts."""

    name: list[str] = []
    ppl: list[float | None] = []
    latency: list[float | None] | None = None
    scores: dict[str, list[float | None]] = {}
    """By proxy."""


class RankedSet(Record):
    """A set of models, and every proxy on it."""

    set: str
    models: int
    dropped: int = 0
    proxies: list[RankedProxy]
    points: ModelPoints = ModelPoints()

    @property
    def by_correlation(self) -> list[RankedProxy]:
        """The best proxy first; those without a correlation are left out."""
        return sorted((one for one in self.proxies if one.spearman is not None), key=lambda one: -(one.spearman or 0.0))


class SkippedSet(Record):
    """A set too small to be ranked."""

    set: str
    models: int


class ProxyRanking(Record):
    """ranking.json."""

    format: int = 1
    of: str = ""
    """The folder or table."""
    metric: str = "ppl"
    sets: list[RankedSet]
    skipped: list[SkippedSet] = []
    train: dict[str, Any] | None = None
    """How the models were trained, if they were trained here."""
