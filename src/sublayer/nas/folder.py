"""The folder of a search: search.json (the request), journal.log (the trials), front.json (the result), runs/."""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from sublayer.nas.records import SearchRequest, SearchResult
from sublayer.runs import sealed_json

REQUEST, JOURNAL, FRONT = "search.json", "journal.log", "front.json"


@dataclass(frozen=True)
class SearchFolder:
    path: Path

    @classmethod
    def open(cls, path: Path | str) -> SearchFolder:
        folder = cls(Path(path))
        if not (folder.path / REQUEST).is_file():
            raise ValueError(
                f"{path}: not a search, it has no {REQUEST}; give the folder that sublayer search --out made"
            )
        return folder

    @property
    def journal(self) -> Path:
        return self.path / JOURNAL

    @property
    def front(self) -> Path:
        return self.path / FRONT

    def locked(self) -> AbstractContextManager[None]:
        """Only one process at a time searches in a folder."""
        return sealed_json.held(self.path, "searching there", (REQUEST, FRONT))

    def write_request(self, request: SearchRequest) -> None:
        """Write the request, or check that it equals the one that is there; the caller holds the lock."""
        sealed_json.ask(self.path / REQUEST, request.to_json(), "search")

    def read_request(self) -> SearchRequest:
        path = self.path / REQUEST
        return SearchRequest.from_json(sealed_json.read_asked(path), path)

    def write_result(self, result: SearchResult) -> None:
        sealed_json.write(self.front, result.to_json())

    def read_result(self) -> SearchResult | None:
        """None before the search has found its front."""
        if not self.front.exists():
            return None
        return SearchResult.from_json(sealed_json.read(self.front), self.front)
