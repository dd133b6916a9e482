"""The kind of a folder, known by its files: a run, a search, a comparison (also by length), a reproduction, …"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel

from sublayer.runs import sealed_json
from sublayer.runs.record import read_record

KINDS = {
    "reproduction": ("claim.json", "claim.json"),
    "search": ("front.json", "search.json"),
    "lengths": ("lengths.json", "lengths-asked.json"),
    "compare": ("table.json", "compare.json"),
    "supernet": ("figures.json", "supernet.json"),
    "proxies": ("ranking.json", "proxies.json"),
}
"""Kind → the file with its result, the file with its request."""
RUN = "run.json"
DEEP = 3
"""Depth to which folders are searched."""

R = TypeVar("R", bound=BaseModel)


@dataclass(frozen=True)
class Found:
    kind: str
    path: Path

    @property
    def runs(self) -> list[Path]:
        """Itself if it is one, else those in its folder `runs`; other runs inside, as of tuning, are no result."""
        if self.kind == "run":
            return [self.path]
        inside = self.path / "runs"
        return [path for path in _folders(inside, 1) if (path / RUN).is_file()] if inside.is_dir() else []


def find(folder: Path) -> list[Found]:
    """The folder itself if it is of a kind, else those in it; runs that belong to a search come with the search."""
    if not folder.is_dir():
        what = "not a folder" if folder.exists() else "there is no such folder"
        raise ValueError(
            f"{folder}: {what}; give one that sublayer train, search or compare made, or one that holds some"
        )
    kind = kind_of(folder)
    if kind is not None:
        return [Found(kind, folder)]
    found: list[Found] = []
    for path in _folders(folder, DEEP):
        kind = kind_of(path)
        if kind is not None and not any(path.is_relative_to(other.path) for other in found):
            found.append(Found(kind, path))
    if not found:
        raise ValueError(
            f"{folder}: nothing to report in it; give a folder that sublayer train, search, compare, reproduce, "
            "proxies or supernet made, or one that holds some"
        )
    return found


def kind_of(folder: Path) -> str | None:
    for kind, files in KINDS.items():
        if any((folder / file).is_file() for file in files):
            return kind
    return "run" if (folder / RUN).is_file() else None


def read(path: Path, kind: type[R]) -> R:
    return read_record(path, kind)


def read_asked(path: Path) -> dict[str, Any]:
    """The request, whatever its form; empty if it cannot be read, as the result is what matters."""
    try:
        return sealed_json.read(path)
    except ValueError:
        return {}


def _folders(folder: Path, deep: int) -> Iterator[Path]:
    """Those inside, parents before children, by name; hidden ones are left out."""
    for path in sorted(folder.iterdir()):
        if path.is_dir() and not path.name.startswith("."):
            yield path
            if deep > 1:
                yield from _folders(path, deep - 1)
