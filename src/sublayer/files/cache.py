"""The cache folder: what is made once from texts, named by what it was made from."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sublayer.files import atomic

VARIABLE = "SUBLAYER_CACHE"


def folder(given: Path | str | None = None) -> Path:
    """What was given, or $SUBLAYER_CACHE, or ~/.cache/sublayer."""
    return Path(given or os.environ.get(VARIABLE) or Path.home() / ".cache" / "sublayer")


def key(**made_from: Any) -> str:
    """A name for what is made from these plain values: sha256 of their canonical JSON."""
    canonical = json.dumps(made_from, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()


@contextmanager
def held(path: Path) -> Iterator[None]:
    """One process at a time makes the file at `path`; the system frees the lock of one that dies."""
    from filelock import FileLock

    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        lock = FileLock(path.with_name(f".{path.name}.lock"))
        lock.acquire()
    except OSError as error:
        raise ValueError(
            f"cache: {path.parent} cannot be written: {error.strerror or error}; set {VARIABLE} to a folder that can be"
        ) from None
    try:
        atomic.sweep(path)
        yield
    finally:
        lock.release()
