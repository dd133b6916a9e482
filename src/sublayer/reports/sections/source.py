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
    """A model's hash, or a candidate's name → where another folder of the report trained it, and how well."""

    @property
    def path(self) -> Path:
        return self.found.path

    def trained_elsewhere(self, number: int, config: dict[str, Any]) -> str:
        """Where a candidate of this search was trained outside it; empty if it was not."""
        if not self.elsewhere:
            return ""
        return self.elsewhere.get(_place(f"{self.path}#{number}")) or self.elsewhere.get(hash_of(config) or "", "")


def trained(folders: Sequence[Found]) -> dict[str, str]:
    """Models of the comparisons and runs in a report, so that a search can mark those that it found."""
    made: dict[str, str] = {}
    for found in folders:
        try:
            made |= TRAINED[found.kind](found.path) if found.kind in TRAINED else {}
        except ValueError:  # its own section reports it
            continue
    return made


def _compared(path: Path) -> dict[str, str]:
    rows = [row for row in ComparisonTable.read(path / KINDS["compare"][0]).rows if row.mean is not None]
    known = {hash_of(row.config): f"{row.name} in {path}, validation loss {score(row.mean)}" for row in rows}
    return {name: words for name, words in known.items() if name}


def _run(path: Path) -> dict[str, str]:
    """A run records the candidate that it was made from."""
    run = History.read(path, path)
    origin = run.run.request.origin
    loss = f", validation loss {score(run.best['valid_loss'])}" if run.best else ""
    return {_place(origin): f"{path}{loss}"} if origin and "#" in origin else {}


TRAINED = {"compare": _compared, "run": _run}


def _place(name: str) -> str:
    """A candidate's name wherever the report is written from."""
    folder, _, number = name.rpartition("#")
    return f"{Path(folder).resolve()}#{number}"


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
