"""The native step as a library: compiled by the machine's own C compiler at first use, then kept.

It is made for the processor at hand, so that is part of its name, and so is a checksum of itself. A file is written
whole or not at all, and processes that start at once do no harm. Code is loaded only from a folder that nobody else can
write to.
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

log = logging.getLogger("sublayer.generation")

HERE = Path(__file__).parent
SOURCES = ("step.c", "matrix.h")
BASE = ("-O3", "-fno-math-errno", "-fno-trapping-math", "-shared", "-fPIC")
FLAGS = (("-march=native", "-fopenmp"), ("-march=native",), ())
"""Tried in this order, until one gives a library that loads."""
COMPILERS = ("cc", "gcc", "clang")
PATIENCE = 60
"""Seconds a compiler may take."""


@cache
def load() -> ctypes.CDLL | None:
    """The library; None, said once in the log, where it cannot be had."""
    reason = ""
    for flags in FLAGS:
        try:
            return _load(flags)
        except (OSError, subprocess.SubprocessError) as error:
            reason = reason or _said(error)
    log.warning("generation goes on without its native step, more slowly: %s", reason)
    return None


def _load(flags: tuple[str, ...]) -> ctypes.CDLL:
    """The kept library, or one made now."""
    folder, name = _folder(), f"step-{_name(flags)}"
    for kept in folder.glob(f"{name}-*.so") if _private(folder) else ():
        if kept.stem == f"{name}-{_digest(kept.read_bytes())}":  # loading a damaged one would be the end of us
            return ctypes.CDLL(str(kept))
    with tempfile.TemporaryDirectory() as draft:
        made = _compile(flags, Path(draft) / f"{name}.so")
        library = ctypes.CDLL(str(made))  # it stays loaded, though its file goes
        _keep(made.read_bytes(), folder / name)
    return library


def _compile(flags: tuple[str, ...], file: Path) -> Path:
    command = [*_compiler(), *BASE, *flags, str(HERE / SOURCES[0]), "-o", str(file), "-lm"]
    subprocess.run(command, check=True, capture_output=True, timeout=PATIENCE)
    return file


def _compiler() -> list[str]:
    found = (name for name in COMPILERS if shutil.which(name))
    return shlex.split(os.environ.get("CC", "")) or [next(found, COMPILERS[0])]


def _keep(made: bytes, name: Path) -> None:
    """For the next process; one that cannot keep it has it all the same."""
    from sublayer.data import atomic

    try:
        name.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if _private(name.parent):
            with atomic.writing(name.with_name(f"{name.name}-{_digest(made)}.so")) as file:
                file.write(made)
    except (OSError, ValueError) as error:
        log.debug("the native step is not kept: %s", error)


def _folder() -> Path:
    from sublayer.data import cache

    return cache.folder() / "native"


def _private(folder: Path) -> bool:
    """Whether it is there, is ours, and is nobody else's to write: what lies in it will be run."""
    try:
        seen = folder.stat()
    except OSError:
        return False
    if not hasattr(os, "getuid"):  # where folders have no such owner, a user's own are private
        return True
    return seen.st_uid == os.getuid() and not seen.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


def _name(flags: tuple[str, ...]) -> str:
    sources = [(HERE / name).read_bytes() for name in SOURCES]
    made_of = sources, BASE, flags, platform.platform(), _processor()
    return _digest(repr(made_of).encode())


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:16]


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    return "\n".join(sorted({line for line in lines if line.startswith(("flags", "Features", "model name"))}))


def _said(error: Exception) -> str:
    if isinstance(error, subprocess.CalledProcessError):
        words = error.stderr.decode(errors="replace").strip().splitlines()
        return f"the compiler said: {words[0] if words else error}"
    return str(error)
