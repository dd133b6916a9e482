"""A file of JSON lines that is only appended to; a line that a killed process left unfinished is not read."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any


class Lines:
    """A file with one JSON object a line. Numbers are written so that they read back to the same bits."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def add(self, line: dict[str, Any]) -> None:
        before = self.size
        try:
            with open(self.path, "ab") as file:
                file.write(json.dumps(line).encode() + b"\n")
        except OSError as error:
            with suppress(OSError):
                self.cut(before)
            raise ValueError(
                f"{self.path}: cannot be written: {error.strerror or error}; free some space there, then resume the run"
            ) from error

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return self.after(0)

    def after(self, size: int) -> Iterator[dict[str, Any]]:
        """Lines after the first `size` bytes, which end with a whole line."""
        if not self.path.exists():
            return
        with open(self.path, "rb") as file:
            file.seek(size)
            for line in file:
                if line.endswith(b"\n"):
                    yield self._read(line)

    def since(self, size: int) -> tuple[list[dict[str, Any]], int]:
        """Lines after the first `size` bytes, and the number of bytes at which the last whole one ends."""
        if not self.path.exists():
            return [], size
        with open(self.path, "rb") as file:
            file.seek(size)
            added = file.read()
        whole = added[: added.rfind(b"\n") + 1]
        return [self._read(line) for line in whole.splitlines()], size + len(whole)

    @property
    def size(self) -> int:
        """Bytes written."""
        return self.path.stat().st_size if self.path.exists() else 0

    def flush(self) -> None:
        """Flush to the disk, so that what was written survives a power cut."""
        if self.path.exists():
            with open(self.path, "rb") as file:
                os.fsync(file.fileno())

    def cut(self, size: int) -> None:
        """Remove what was written after the first `size` bytes."""
        if self.size < size:
            raise ValueError(
                f"{self.path}: {self.size} bytes, but a checkpoint was written after {size}; it was cut or edited. "
                "Put the whole file back, or resume from an earlier checkpoint"
            )
        if self.size > size:
            with open(self.path, "r+b") as file:
                file.truncate(size)

    def mend(self) -> None:
        """Remove an unfinished last line: the next line would be appended to it."""
        if self.path.exists():
            self.cut(self.path.read_bytes().rfind(b"\n") + 1)

    def _read(self, line: bytes) -> dict[str, Any]:
        try:
            read = json.loads(line)
        except (ValueError, RecursionError):
            read = None
        if not isinstance(read, dict):
            raise ValueError(
                f"{self.path}: expected lines of JSON, got {line[:40]!r}; the file was damaged or edited, put it back "
                "or remove that line"
            )
        return read
