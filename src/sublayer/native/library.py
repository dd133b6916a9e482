"""A C file as a library: compiled by the machine's own compiler at first use, then cached.

It is compiled for this processor, which is part of the file's name, as is a checksum of its content. Files are written
atomically, so processes may start at the same time. Code is loaded only from a folder that nobody else can write to:
`$SUBLAYER_NATIVE`, else one in Sublayer's cache. `SUBLAYER_NATIVE=0` switches native code off.
"""

from __future__ import annotations

import ctypes
import hashlib
import logging
import os
import platform
import shlex
import shutil
import stat
import subprocess
import tempfile
from functools import cache
from pathlib import Path

from sublayer.files import atomic
from sublayer.files.cache import folder as cache_folder

log = logging.getLogger("sublayer.native")

VARIABLE = "SUBLAYER_NATIVE"
HERE = Path(__file__).parent
BASE = ("-O3", "-fno-math-errno", "-fno-trapping-math", "-shared", "-fPIC")
FLAGS = (("-march=native", "-fopenmp"), ("-march=native",), ())
"""Tried in this order, until one gives a library that loads."""
COMPILERS = ("cc", "gcc", "clang")
PATIENCE = 60
"""Seconds a compiler may take."""


class Library(ctypes.CDLL):
    """A loaded library; equal digests compute equal bits."""

    def __init__(self, file: Path, digest: str) -> None:
        super().__init__(str(file))
        self.digest = digest


@cache
def load(source: Path, user: str) -> Library | None:
    """The library; None if it is switched off, or cannot be compiled, which is logged once."""
    if os.environ.get(VARIABLE) == "0":
        return None
    reason = ""
    for flags in FLAGS:
        try:
            return _load(source, flags)
        except (OSError, ValueError, subprocess.SubprocessError) as error:  # ValueError: $CC is no command
            reason = reason or _reason(error)
    log.warning("%s goes on without native code, more slowly: %s", user, reason)
    return None


def _load(source: Path, flags: tuple[str, ...]) -> Library:
    """The cached library, or one compiled now."""
    folder, name = _folder(), f"{source.stem}-{_name(source, flags)}"
    for cached in folder.glob(f"{name}-*.so") if _private(folder) else ():
        digest = _digest(cached.read_bytes())
        if cached.stem == f"{name}-{digest}":  # loading a damaged library could crash the process
            return Library(cached, digest)
    with tempfile.TemporaryDirectory() as draft:
        made = _compile(source, flags, Path(draft) / f"{name}.so")
        content = made.read_bytes()
        library = Library(made, _digest(content))  # it stays loaded after its file is deleted
        _store(content, folder / f"{name}-{library.digest}.so")
    return library


def _compile(source: Path, flags: tuple[str, ...], file: Path) -> Path:
    command = [*_compiler(), *BASE, *flags, f"-I{HERE}", str(source), "-o", str(file), "-lm"]
    subprocess.run(command, check=True, capture_output=True, timeout=PATIENCE)
    return file


def _compiler() -> list[str]:
    found = (name for name in COMPILERS if shutil.which(name))
    return shlex.split(os.environ.get("CC", "")) or [next(found, COMPILERS[0])]


def _store(made: bytes, file: Path) -> None:
    """For the next process. Failing to store it is no error: this process has it loaded."""
    try:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if _private(file.parent):
            with atomic.writing(file) as file_out:
                file_out.write(made)
    except (OSError, ValueError) as error:
        log.debug("native code is not cached: %s", error)


def _folder() -> Path:
    given = os.environ.get(VARIABLE)
    return Path(given) if given else cache_folder() / "native"


def _private(folder: Path) -> bool:
    """Whether it exists, is ours, and nobody else can write to it: what it holds will be run."""
    try:
        seen = folder.stat()
    except OSError:
        return False
    if not hasattr(os, "getuid"):  # Windows: a user's own folders are private
        return True
    return seen.st_uid == os.getuid() and not seen.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


def _name(source: Path, flags: tuple[str, ...]) -> str:
    headers = sorted(source.parent.glob("*.h")) + sorted(HERE.glob("*.h"))
    made_of = [file.read_bytes() for file in (source, *headers)], BASE, flags, platform.platform(), _processor()
    return _digest(repr(made_of).encode())


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:16]


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    return "\n".join(sorted({line for line in lines if line.startswith(("flags", "Features", "model name"))}))


def _reason(error: Exception) -> str:
    if isinstance(error, subprocess.CalledProcessError):
        words = error.stderr.decode(errors="replace").strip().splitlines()
        return f"the compiler reports: {words[0] if words else error}"
    return str(error)
