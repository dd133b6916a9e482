"""What a section is made of: a folder, its runs, and what the report's other folders know of its models."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sublayer.comparison.records import ComparisonTable
from sublayer.reports.folders import KINDS, Found
from sublayer.reports.history import History
from sublayer.reports.units import score


@dataclass(frozen=True)
class Source:
    found: Found
    runs: Sequence[History]
    """Those in the folder that can be read."""
    tokens: int
    """Of each sample of text."""
    elsewhere: Mapping[str, str] = field(default_factory=dict)
    """A model's hash → where another folder of the report trained it, and how well."""

    @property
    def path(self) -> Path:
        return self.found.path


def trained(folders: Sequence[Found]) -> dict[str, str]:
    """Models of the comparisons in a report, so that a search can mark those that it found."""
    made: dict[str, str] = {}
    for found in folders:
        try:
            rows = ComparisonTable.read(found.path / KINDS["compare"][0]).rows if found.kind == "compare" else []
        except ValueError:  # its own section reports it
            continue
        for row in rows:
            if (name := hash_of(row.config)) and row.mean is not None:
                made[name] = f"{row.name} in {found.path}, validation loss {score(row.mean)}"
    return made


def counts(config: dict[str, Any]) -> dict[str, int]:
    """Counted figures of a model by name; none where its parts are not installed here."""
    from sublayer.nn.model import Model

    try:
        cost = Model.Config.parse(config).cost()
    except (ValueError, NotImplementedError):
        return {}
    return {"params": cost.params, "decoder_params": cost.decoder_params, "flops": cost.flops.total}


def hash_of(config: dict[str, Any] | None) -> str | None:
    """None where there is none, or where its parts are not installed here."""
    from sublayer.nn.model import Model

    try:
        return Model.Config.parse(config).hash if config else None
    except (ValueError, NotImplementedError):
        return None
