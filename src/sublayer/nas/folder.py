"""The folder of a search: what was asked, the journal of its trials, the front it came to."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sublayer.runs import sealed_json

ASKED, JOURNAL, FRONT = "search.json", "journal.log", "front.json"


@dataclass(frozen=True)
class Folder:
    path: Path

    @property
    def journal(self) -> Path:
        return self.path / JOURNAL

    @property
    def front(self) -> Path:
        return self.path / FRONT

    @classmethod
    def open(cls, path: Path | str) -> Folder:
        folder = cls(Path(path))
        if not (folder.path / ASKED).is_file():
            raise ValueError(
                f"{path}: not a search, it has no {ASKED}; give the folder that sublayer search --out made"
            )
        return folder

    def ask(self, asked: Mapping[str, Any]) -> None:
        """Write down what is asked, or go on with the same; for whoever holds the folder's lock."""
        sealed_json.ask(self.path / ASKED, asked, "search")

    @property
    def asked(self) -> dict[str, Any]:
        return sealed_json.read_asked(self.path / ASKED)

    def held(self) -> AbstractContextManager[None]:
        """One process at a time searches in a folder."""
        return sealed_json.held(self.path, "searching there", (ASKED, FRONT))
