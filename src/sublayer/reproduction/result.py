"""claim.json: the paper's figures, ours, and which of its findings were seen again."""

from __future__ import annotations

from typing import Any

from sublayer.comparison.interval import Interval
from sublayer.runs.record import Record


class FindingRow(Record):
    """One variant."""

    variant: str
    paper: float | None = None
    """The paper's figure, if it prints one."""
    ours: Interval | None = None
    values: list[float | None] = []
    """Ours, by seed."""


class Order(Record):
    """A pair of which the paper finds one better."""

    better: str
    worse: str
    seen: str
    """Whether that was seen here, in words: yes, clearly; …"""

    @property
    def words(self) -> str:
        return f"{self.better} before {self.worse}: {self.seen}"


class Tie(Record):
    """A pair that the paper finds equally good."""

    one: str
    other: str
    seen: str

    @property
    def words(self) -> str:
        return f"{self.one} like {self.other}: {self.seen}"


class FindingResult(Record):
    """One figure of all variants."""

    figure: str
    title: str
    unit: str = ""
    less_is_better: bool = False
    rows: list[FindingRow]
    order: list[Order] = []
    alike: list[Tie] = []

    @property
    def pairs(self) -> list[Order | Tie]:
        return [*self.order, *self.alike]

    @property
    def cells(self) -> list[tuple[str, str, str, str]]:
        """For each variant: its name, the paper's figure, ours with its interval, and that of each seed."""
        known = [row.paper for row in self.rows] + [row.ours.mean for row in self.rows if row.ours]
        size = max((abs(value) for value in known if value is not None), default=0.0)

        def number(value: float | None) -> str:
            if value is None:
                return "—"
            return f"{value:,.0f}" if size >= 1000 else f"{value:.1f}" if size >= 10 else f"{value:.3f}"

        def ours(row: FindingRow) -> str:
            if row.ours is None:
                return "—"
            return number(row.ours.mean) + ("" if row.ours.half is None else f" ± {number(row.ours.half)}")

        return [(row.variant, number(row.paper), ours(row), ", ".join(map(number, row.values))) for row in self.rows]


class ClaimResult(Record):
    """claim.json."""

    format: int = 1
    claim: str
    """Its name."""
    source: str = ""
    says: str = ""
    scale: str = ""
    """How the experiment was made smaller than the paper's."""
    settings: dict[str, Any] = {}
    """Keys of model, data and training for all variants."""
    changes: dict[str, Any] = {}
    """Those among them that the user changed."""
    data: str = ""
    """What was trained on instead of the claim's own; empty for that."""
    seeds: list[int] = []
    minutes: float = 0.0
    """Of training, in all."""
    findings: list[FindingResult]
    params: dict[str, int] = {}
    """By variant."""
    papers: list[str] = []
    """That it is about, where its name does not say so."""
