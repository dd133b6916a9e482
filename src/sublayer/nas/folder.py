"""The folder of a search: what was asked, the journal of its trials, the front it came to."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sublayer.data import atomic

FORMAT = 1
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
        if (self.path / ASKED).exists():
            before = self.asked
            for name in {**before, **asked}:
                if before.get(name) != asked.get(name):
                    raise ValueError(
                        f"{self.path}: there is a search with another {name} ({_short(before.get(name))}, now "
                        f"{_short(asked.get(name))}); go on with the same command, or choose another folder"
                    )
            return
        others = [file.name for file in self.path.iterdir() if not file.name.startswith(".")]
        if others:
            raise ValueError(f"{self.path}: the folder holds other files ({others[0]}, …); choose an empty or new one")
        write(self.path / ASKED, {"format": FORMAT, **asked, "sha256": _digest(asked)})

    @property
    def asked(self) -> dict[str, Any]:
        data = read(self.path / ASKED)
        asked = {name: value for name, value in data.items() if name not in ("format", "sha256")}
        if data.get("format") != FORMAT or data.get("sha256") != _digest(asked):
            raise ValueError(
                f"{self.path / ASKED}: its checksum does not match, so it was damaged or edited; put it back"
            )
        return asked

    @contextmanager
    def held(self) -> Iterator[None]:
        """One process at a time searches in a folder; the system frees the lock of one that dies."""
        from filelock import FileLock, Timeout

        lock = FileLock(self.path / ".lock")
        if self.path.is_file():
            raise ValueError(f"{self.path}: a file is there; choose another folder for the search")
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            lock.acquire(timeout=0)
        except Timeout:
            raise ValueError(f"{self.path}: another process is searching there; wait for it, or stop it") from None
        except OSError as error:
            raise ValueError(
                f"{self.path}: cannot be written: {error.strerror or error}; choose a folder that can be"
            ) from None
        try:
            for name in (ASKED, FRONT):
                atomic.sweep(self.path / name)
            yield
        finally:
            lock.release()


def write(path: Path, data: Mapping[str, Any]) -> None:
    with atomic.writing(path) as file:
        file.write(json.dumps(data, indent=2).encode() + b"\n")


def read(path: Path) -> dict[str, Any]:
    try:
        data = json.loads(path.read_bytes())
    except FileNotFoundError:
        raise ValueError(f"{path}: the file is missing; run the search again, which goes on where it was") from None
    except (OSError, ValueError) as error:
        raise ValueError(f"{path}: cannot be read: {error}; it was damaged or edited, put it back") from None
    if not isinstance(data, dict):
        raise ValueError(f"{path}: not an object of JSON; it was damaged or edited, put it back")
    return data


def _digest(asked: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()


def _short(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 60 else f"{text[:57]}…"
