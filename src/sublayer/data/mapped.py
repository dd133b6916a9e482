"""Arrays in files, mapped into memory: `NAME.bin` with the numbers, `NAME.json` beside it with what they must be.

The header is written last: if it is there, the numbers were written whole. Its length and checksum show later damage.
"""

from __future__ import annotations

import json
import logging
import zlib
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np

from sublayer.files import cache
from sublayer.files.atomic import writing

log = logging.getLogger(__name__)

FORMAT = 1
CHECKED_AT_ONCE = 1 << 24


def dtype_for(vocab: int) -> np.dtype:
    """The smallest unsigned numbers that hold ids below `vocab`."""
    return next(np.dtype(name) for name in ("<u1", "<u2", "<u4") if vocab <= 1 << 8 * np.dtype(name).itemsize)


def build(path: Path, dtype: np.dtype, make: Callable[[], Iterable[Any]], **made_from: Any) -> np.ndarray:
    """The array at `path` (without suffix), made once: `make` gives its bytes or arrays, one after another.

    Safe when several processes start at once: one makes it, the others wait. A damaged file is made again.
    """
    found, _ = _open(path)
    if found is not None:
        return found
    with cache.held(path):
        found, damage = _open(path)  # another process may have made it meanwhile
        if found is not None:
            return found
        if damage:
            log.warning("%s.bin is damaged (%s); it is made again", path, damage)
        write(path, dtype, make(), **made_from)
    return map_file(path.with_suffix(".bin"), dtype)


def write(path: Path, dtype: np.dtype, pieces: Iterable[Any], **made_from: Any) -> None:
    """Numbers, then header; for whoever holds the lock of `path`."""
    binary, header = path.with_suffix(".bin"), path.with_suffix(".json")
    checksum = size = 0
    with writing(binary) as file:
        for piece in pieces:
            data = memoryview(piece).cast("B") if len(piece) else b""
            checksum = zlib.crc32(data, checksum)
            size += file.write(data)
    facts = {"format": FORMAT, "dtype": dtype.name, "count": size // dtype.itemsize, "crc32": checksum, **made_from}
    with writing(header) as file:
        file.write(json.dumps(facts, indent=2).encode() + b"\n")


def load(path: Path) -> np.ndarray:
    """The array at `path`, checked."""
    found, damage = _open(path)
    if found is None:
        raise ValueError(f"{path}.bin is damaged ({damage or 'there is no header'})")
    return found


def _open(path: Path) -> tuple[np.ndarray | None, str]:
    """The array, or None with the problem; a missing file is no problem."""
    header = path.with_suffix(".json")
    if not header.exists():
        return None, ""
    try:
        facts = json.loads(header.read_bytes())
        if facts["format"] != FORMAT:
            raise ValueError(f"its format is {facts['format']}, expected {FORMAT}")
        array = map_file(path.with_suffix(".bin"), np.dtype(facts["dtype"]))
        if len(array) != facts["count"]:
            raise ValueError(f"{len(array):,} numbers, expected {facts['count']:,}")
        if crc32(array) != facts["crc32"]:
            raise ValueError("its checksum does not match")
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        return None, f"{type(error).__name__}: {error}"
    return array, ""


def map_file(path: Path, dtype: np.dtype) -> np.ndarray:
    """A file as a read-only array; a map cannot be empty, an array can."""
    return np.memmap(path, dtype, mode="r") if path.stat().st_size else np.empty(0, dtype)


def crc32(array: np.ndarray) -> int:
    data, checksum = array.view(np.uint8), 0
    for start in range(0, len(data), CHECKED_AT_ONCE):
        checksum = zlib.crc32(data[start : start + CHECKED_AT_ONCE].data, checksum)
    return checksum
