"""Turns: on one machine one process measures at a time; two would disturb each other's readings."""

from __future__ import annotations

import logging
import socket
from contextlib import AbstractContextManager, nullcontext

from sublayer.files import cache

log = logging.getLogger("sublayer.measurement")

PATIENCE = 1.0
"""Seconds to wait before it is said."""


def turn() -> AbstractContextManager[object]:
    """Wait for it; who has it may ask again. The system frees that of a process that dies."""
    from filelock import FileLock, Timeout

    # By the machine's name, since machines may share a cache.
    path = cache.folder() / "measurement" / f".{socket.gethostname()}.lock"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        lock = FileLock(path, is_singleton=True)
        try:
            return lock.acquire(timeout=PATIENCE)
        except Timeout:
            log.warning("another process is measuring on this machine, and would be disturbed: waiting for it to end")
            return lock.acquire()
    except OSError:  # a cache that cannot be written: nothing else is wanted of it
        return nullcontext()
