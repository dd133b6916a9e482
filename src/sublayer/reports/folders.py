"""What a folder is, found out from its files: a run, a search, a comparison, a reproduction, a supernet, proxies."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

KINDS = {
    "reproduction": ("claim.json", "claim.json"),
    "search": ("front.json", "search.json"),
    "compare": ("table.json", "compare.json"),
    "supernet": ("figures.json", "supernet.json"),
    "proxies": ("ranking.json", "proxies.json"),
}
"""Kind → the file with its result, the file with what was asked."""
RUN = "run.json"
DEEP = 3
"""How many folders down to look."""


class Record(BaseModel):
    """What a file says, as far as a report reads it; what else the file holds is none of its business."""

    model_config = ConfigDict(extra="ignore", frozen=True)


R = TypeVar("R", bound=BaseModel)


@dataclass(frozen=True)
class Found:
    kind: str
    path: Path

    @property
    def runs(self) -> list[Path]:
        """Itself if it is one, else those in its folder `runs`; what else it trained on the way is not its result."""
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
    """A file as a record; ValueError in one line if it is not there, not JSON or not what is expected."""
    try:
        return kind.model_validate_json(_bytes(path))
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(str(step) for step in first["loc"])
        raise ValueError(f"{path}: {place + ': ' if place else ''}{first['msg']}; it was damaged or edited") from None


def read_asked(path: Path) -> dict[str, Any]:
    """What was asked, whatever its form; nothing if it cannot be read, as the result says what matters."""
    import json

    try:
        asked = json.loads(_bytes(path))
    except ValueError:
        return {}
    return asked if isinstance(asked, dict) else {}


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise ValueError(
            f"{path}: not there yet; wait until the work in {path.parent} is done, or go on with it"
        ) from None
    except OSError as error:
        raise ValueError(f"{path}: cannot be read: {error.strerror or error}") from None


def _folders(folder: Path, deep: int) -> Iterator[Path]:
    """Those inside, parents before children, by name; hidden ones are nobody's result."""
    for path in sorted(folder.iterdir()):
        if path.is_dir() and not path.name.startswith("."):
            yield path
            if deep > 1:
                yield from _folders(path, deep - 1)
