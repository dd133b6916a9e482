"""Description: one member of the family, with its citation, its difference to another member, and its cost."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sublayer.nn.model import Cost, Model
from sublayer.papers.chosen_paths import ChosenPath
from sublayer.papers.registry import Paper


@dataclass(frozen=True)
class Description:
    name: str
    """A paper's name, or a file."""
    config: Model.Config
    cost: Cost
    paper: Paper | None
    """None for a file."""
    against: str | None
    """The paper or file that `diff` compares with; by default the paper's parent."""
    diff: dict[str, tuple[Any, Any]]
    """Dotted path → value there, value here."""
    paths: list[ChosenPath]
    """Which implementation its sublayers run, and why not a faster one."""

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
        }
