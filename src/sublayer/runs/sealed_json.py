"""What folders of results share: JSON that is whole or absent, a request that is sealed, one process at a time."""

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


@contextmanager
def held(folder: Path, what: str, files: tuple[str, ...] = ()) -> Iterator[None]:
    """The folder, made if need be, for this process alone; the system frees the lock of one that dies.

    what: the other process does, for whoever has to wait. files: that killed writers may have left unfinished.
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
    """Write a request down in a folder that is empty but for what begins with a dot; or see that it is the same as
    before, but for what is `free` to change. For whoever holds the folder."""
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
    """With a checksum, so that a request that was edited is not taken for what was done."""
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
    """needs: names that must be in it."""
    try:
        data = json.loads(path.read_bytes())
    except FileNotFoundError:
        raise ValueError(f"{path}: the file is missing; put it back, or begin again in another folder") from None
    except (OSError, ValueError) as error:
        raise ValueError(f"{path}: cannot be read: {error}; it was damaged or edited, put it back") from None
    if not isinstance(data, dict):
        raise ValueError(f"{path}: not an object of JSON; it was damaged or edited, put it back")
    for name in needs:
        if name not in data:
            raise ValueError(f"{path}: no {name} in it; it was damaged or edited, put it back")
    return data


def short(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 60 else f"{text[:57]}…"
