"""The folder of a comparison: what was asked, sealed; one process at a time; what is dear to form is kept."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sublayer.runs import sealed_json

ASKED, FIGURES, TABLE = "compare.json", "figures.json", "table.json"


@dataclass(frozen=True)
class Folder:
    path: Path

    def run(self, slug: str, seed: int) -> Path:
        return self.path / "runs" / f"{slug}-{seed}"

    def tuning(self, slug: str, lr: float) -> Path:
        return self.path / "tuning" / f"{slug}-{lr:g}"

    def ask(self, asked: dict[str, Any]) -> None:
        """Write down what is asked, or see that it is what was asked before; for whoever holds the folder."""
        sealed_json.ask(self.path / ASKED, asked, "comparison")

    def figure(self, name: str, form: Callable[[], Any]) -> Any:
        """One that is formed once and kept."""
        path = self.path / FIGURES
        known = sealed_json.read(path) if path.exists() else {}
        if name not in known:
            known[name] = form()
            sealed_json.write(path, known)
        return known[name]

    def held(self) -> AbstractContextManager[None]:
        """One process at a time."""
        return sealed_json.held(self.path, "at work there", (ASKED, FIGURES, TABLE))
