"""The folder of a comparison: what was asked, sealed; one process at a time; what is dear to form is kept."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sublayer.data.atomic import sweep, writing

FORMAT = 1
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
        there = self._asked()
        if there is None:
            others = [file.name for file in self.path.iterdir() if not file.name.startswith(".")]
            if others:
                raise ValueError(f"{self.path}: the folder holds other files ({others[0]}, …); choose a new one")
            write(self.path / ASKED, {"format": FORMAT, **asked, "sha256": _digest(asked)})
        elif there != json.loads(json.dumps(asked)):
            what = next(name for name in asked if there.get(name) != json.loads(json.dumps(asked[name])))
            raise ValueError(
                f"{self.path}: another comparison is there, with other {what}; ask as before to go on with it, or "
                "choose another folder"
            )

    def figure(self, name: str, form: Callable[[], Any]) -> Any:
        """One that is formed once and kept."""
        path = self.path / FIGURES
        known = read(path) if path.exists() else {}
        if name not in known:
            known[name] = form()
            write(path, known)
        return known[name]

    @contextmanager
    def held(self) -> Iterator[None]:
        """One process at a time; the system frees the lock of one that dies."""
        from filelock import FileLock, Timeout

        lock = FileLock(self.path / ".lock")
        try:
            if self.path.is_file():
                raise ValueError(f"{self.path}: a file is there; choose another folder for the comparison")
            self.path.mkdir(parents=True, exist_ok=True)
            lock.acquire(timeout=0)
        except Timeout:
            raise ValueError(f"{self.path}: another process is at work in it; wait for it, or stop it") from None
        except OSError as error:
            raise ValueError(
                f"{self.path}: cannot be written: {error.strerror or error}; choose a folder that can be"
            ) from None
        try:
            for name in (ASKED, FIGURES, TABLE):
                sweep(self.path / name)
            yield
        finally:
            lock.release()

    def _asked(self) -> dict[str, Any] | None:
        if not (self.path / ASKED).exists():
            return None
        asked = read(self.path / ASKED)
        told, version = asked.pop("sha256", None), asked.pop("format", None)
        if version != FORMAT or told != _digest(asked):
            raise ValueError(f"{self.path / ASKED}: it was damaged or edited; put it back, or choose another folder")
        return asked


def write(path: Path, data: Any) -> None:
    with writing(path) as file:
        file.write(json.dumps(data, indent=2, allow_nan=False).encode() + b"\n")


def read(path: Path) -> dict[str, Any]:
    try:
        return json.loads(path.read_bytes())
    except (OSError, ValueError) as error:
        raise ValueError(f"{path}: cannot be read: {error}; put it back, or remove it") from None


def _digest(asked: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()
