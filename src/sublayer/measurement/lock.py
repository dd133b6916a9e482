"""A lock per machine: only one process measures at a time, as two would disturb each other."""

from __future__ import annotations

import logging
import socket
from contextlib import AbstractContextManager, nullcontext

from sublayer.files import cache

log = logging.getLogger("sublayer.measurement")

PATIENCE = 1.0
"""Seconds to wait before a warning."""


def measuring_lock() -> AbstractContextManager[object]:
    """Wait for the lock; its holder may take it again. The system frees the lock of a process that dies."""
    from filelock import FileLock, Timeout

    # Named after the machine, since machines may share a cache.
    path = cache.folder() / "measurement" / f".{socket.gethostname()}.lock"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        lock = FileLock(path, is_singleton=True)
        try:
            return lock.acquire(timeout=PATIENCE)
        except Timeout:
            log.warning("another process is measuring on this machine; waiting for it to end")
            return lock.acquire()
    except OSError:  # the cache cannot be written: measure without the lock
        return nullcontext()
