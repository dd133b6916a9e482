"""Description: one member of the family, with its citation, its difference to another member, and its cost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from sublayer.nn.model import Cost, Model
from sublayer.papers.chosen_paths import ChosenPath
from sublayer.papers.registry import Paper


@dataclass(frozen=True)
class Figure:
    """A figure of a candidate of a search."""

    name: str
    value: float
    """In seconds, bytes or units."""
    source: str
    """counted, predicted, scored or measured."""
    disturbed: str | None = None
    """What spoilt the measurement, or those that it was predicted from; None if nothing did."""

    @property
    def how(self) -> str:
        """Its source in words: `measured on a busy machine (other processes take 1.5 cores)`."""
        return self.source + (f" on a busy machine ({self.disturbed})" if self.disturbed else "")


@dataclass(frozen=True)
class Description:
    name: str
    """Of a paper, a file, the folder of a run, or a candidate of a search."""
    config: Model.Config
    cost: Cost
    paper: Paper | None
    """None for all but papers."""
    against: str | None
    """The paper or file that `diff` compares with; by default the paper's parent."""
    diff: dict[str, tuple[Any, Any]]
    """Dotted path → value there, value here."""
    paths: list[ChosenPath]
    """Which implementation its sublayers run, and why not a faster one."""
    origin: str | None = None
    """Of a run: the name of the model that it was asked to train, where that was recorded."""
    figures: Sequence[Figure] = ()
    """Of a candidate: what its search knows about it."""

    def dump(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "cite": self.paper.cite if self.paper else None,
            "about": self.paper.story if self.paper else None,
            "parent": self.paper.parent if self.paper else None,
            "against": self.against,
            "diff": self.diff,
            "hash": self.config.hash,
            "config": self.config.dump(),
            "cost": self.cost.dump(),
            "paths": [one.dump() for one in self.paths],
            **({"origin": self.origin} if self.origin else {}),
            **({"figures": [asdict(one) for one in self.figures]} if self.figures else {}),
        }
