"""Shared by folders of results: JSON files that are whole or absent, requests with a checksum, a lock."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sublayer.files import atomic

FORMAT = 1
SEAL = ("format", "sha256")
DEEPEST = 100
"""Levels of nesting that a file of ours may have; those we write have fewer than 30."""


@contextmanager
def held(folder: Path, what: str, files: tuple[str, ...] = ()) -> Iterator[None]:
    """Lock the folder, made if need be, for this process; the system frees the lock of a process that dies.

    what: the work in progress, for the message to a process that finds the lock taken. files: those whose unfinished
    drafts, left by killed writers, are removed.
    """
    from filelock import FileLock, Timeout

    if folder.is_file():
        raise ValueError(f"{folder}: a file is there; choose another folder")
    lock = FileLock(folder / ".lock")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock.acquire(timeout=0)
    except Timeout:
        raise ValueError(f"{folder}: another process is {what}; wait for it, or stop it") from None
    except OSError as error:
        raise ValueError(
            f"{folder}: cannot be written: {error.strerror or error}; choose a folder that can be"
        ) from None
    try:
        for name in files:
            atomic.sweep(folder / name)
        yield
    finally:
        lock.release()


def ask(path: Path, asked: Mapping[str, Any], what: str, free: tuple[str, ...] = ()) -> None:
    """Write a request to a folder that holds no other files; or check that it equals the one there, except for the
    fields that are `free` to change. The caller holds the lock."""
    if not path.exists():
        others = [file.name for file in path.parent.iterdir() if not file.name.startswith(".")]
        if others:
            raise ValueError(
                f"{path.parent}: the folder holds other files ({others[0]}, …); choose an empty or new one"
            )
        seal(path, asked)
        return
    before, now = read_asked(path), json.loads(json.dumps(asked))
    was, wanted = ({name: value for name, value in one.items() if name not in free} for one in (before, now))
    for name, there, here in differing(was, wanted):
        raise ValueError(
            f"{path.parent}: another {what} is there, with another {name} ({short(there)}, now {short(here)}); ask for "
            "the same to go on with it, or choose another folder"
        )
    if before != now:
        seal(path, asked)


def differing(there: Any, here: Any, path: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Dotted path and both values, where plain data differ."""
    if isinstance(there, dict) and isinstance(here, dict):
        for name in {**there, **here}:
            yield from differing(there.get(name), here.get(name), f"{path}.{name}" if path else name)
    elif there != here:
        yield path, there, here


def seal(path: Path, asked: Mapping[str, Any]) -> None:
    """Write a request with a checksum, so that an edited request is not taken for the one that was carried out."""
    write(path, {"format": FORMAT, **asked, "sha256": digest(asked)})


def read_asked(path: Path) -> dict[str, Any]:
    data = read(path)
    asked = {name: value for name, value in data.items() if name not in SEAL}
    if data.get("format") != FORMAT or data.get("sha256") != digest(asked):
        raise ValueError(f"{path}: its checksum does not match, so it was damaged or edited; put it back")
    return asked


def digest(asked: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()


def write(path: Path, data: Mapping[str, Any]) -> None:
    with atomic.writing(path) as file:
        file.write(json.dumps(data, indent=2).encode() + b"\n")


def read(path: Path, needs: tuple[str, ...] = ()) -> dict[str, Any]:
    """An object from a file. needs: names that must be in it."""
    try:
        text = path.read_bytes()
    except FileNotFoundError:
        raise ValueError(f"{path}: the file is missing; put it back, or begin again in another folder") from None
    except OSError as error:
        raise ValueError(
            f"{path}: cannot be read: {error.strerror or error}; make it readable, or put it back"
        ) from None
    data = parse(text, path)
    for name in needs:
        if name not in data:
            raise ValueError(f"{path}: no {name} in it; it was damaged or edited, put it back")
    return data


def parse(text: bytes, path: Path) -> dict[str, Any]:
    """An object of JSON; what is none, or is nested too deeply to be ours, is refused in one line."""
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:
        why = "it is nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise ValueError(f"{path}: cannot be read: {why}; it was damaged or edited, put it back") from None
    if not isinstance(data, dict):
        raise ValueError(f"{path}: not an object of JSON; it was damaged or edited, put it back")
    if _deeper(data, DEEPEST):
        raise ValueError(f"{path}: cannot be read: it is nested too deeply; it was damaged or edited, put it back")
    return data


def _deeper(data: Any, levels: int) -> bool:
    """Whether data is nested deeper than so many levels; level by level, so that depth costs no recursion."""
    level = [data]
    for _ in range(levels):
        inner = [item.values() if isinstance(item, dict) else item for item in level if isinstance(item, dict | list)]
        level = [value for values in inner for value in values if isinstance(value, dict | list)]
        if not level:
            return False
    return True


def short(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 60 else f"{text[:57]}…"
