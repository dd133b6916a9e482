"""Files that are whole or absent: written under a temporary name, flushed to disk, then renamed."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

BUFFER = 1 << 20


@contextmanager
def writing(path: Path) -> Iterator[BinaryIO]:
    """A file to write, which appears at `path` only if the block ends well; otherwise nothing of it stays."""
    draft = path.with_name(f".{path.name}.{os.getpid()}-{secrets.token_hex(4)}.part")
    try:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with open(draft, "wb", buffering=BUFFER) as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            draft.replace(path)
            _sync_folder(path.parent)
        except OSError as error:
            raise ValueError(
                f"{path}: cannot be written: {error.strerror or error}; nothing of it is left. Free some space there, "
                "or choose a folder that can be written"
            ) from error
    except BaseException:
        with suppress(OSError):
            draft.unlink(missing_ok=True)
        raise


def sweep(path: Path) -> None:
    """Remove what killed writers of `path` left behind; for whoever holds its lock."""
    for draft in path.parent.glob(f".{path.name}.*.part"):
        draft.unlink(missing_ok=True)


def _sync_folder(folder: Path) -> None:
    """Make the rename itself survive a power cut, where the system lets a folder be opened."""
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
