"""The folder of a comparison: the request, sealed; one process at a time; costly figures are stored when computed."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError

from sublayer.runs import sealed_json
from sublayer.runs.record import Record, first_problem

ASKED, FIGURES, TABLE = "compare.json", "figures.json", "table.json"

R = TypeVar("R", bound=Record)


@dataclass(frozen=True)
class ComparisonFolder:
    path: Path

    def run(self, slug: str, seed: int) -> Path:
        return self.path / "runs" / f"{slug}-{seed}"

    def tuning(self, slug: str, lr: float) -> Path:
        return self.path / "tuning" / f"{slug}-{lr:g}"

    def read_asked(self) -> dict[str, Any]:
        """The request; empty where nothing was asked yet."""
        path = self.path / ASKED
        return sealed_json.read_asked(path) if path.exists() else {}

    def ask(self, asked: dict[str, Any]) -> None:
        """Write the request down, or check that it is the one written before; the caller holds the folder."""
        sealed_json.ask(self.path / ASKED, asked, "comparison")

    def figure(self, name: str, kind: type[R], compute: Callable[[], dict[str, Any] | None]) -> R | None:
        """An entry of figures.json, computed the first time and stored; None is an answer and is stored, too."""
        path = self.path / FIGURES
        known = sealed_json.read(path) if path.exists() else {}
        if name not in known:
            known[name] = compute()
            sealed_json.write(path, known)
        try:
            return None if known[name] is None else kind.model_validate(known[name])
        except ValidationError as error:
            raise ValueError(
                f"{path}: {name}: {first_problem(error)}; it was damaged or edited; put it back, or delete it to "
                "compute its figures again"
            ) from None

    def held(self) -> AbstractContextManager[None]:
        """One process at a time."""
        return sealed_json.held(self.path, "at work there", (ASKED, FIGURES, TABLE))
