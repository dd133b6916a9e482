"""The high-water mark of a process: its largest resident memory, as the system counts it."""

from __future__ import annotations

import ctypes
import gc
import sys
from collections.abc import Callable
from pathlib import Path

from sublayer.native import arrays

try:
    import resource
except ImportError:  # Windows
    resource = None

STATUS = Path("/proc/self/status")


def rise(run: Callable[[], object]) -> int:
    """Bytes by which a call raises the mark; exact only in a process that has done little else."""
    reset()
    before = mark()
    run()
    return mark() - before


def reset() -> bool:
    """Reset the mark to what is in use now; False where the system cannot."""
    gc.collect()
    arrays.release()
    try:
        # Otherwise freed pages that the allocator still holds would be reused without raising the mark.
        ctypes.CDLL(None).malloc_trim(0)
        Path("/proc/self/clear_refs").write_text("5")
    except (AttributeError, OSError):
        return False
    return True


def mark() -> int:
    """Bytes; 0 where the system does not report it."""
    if STATUS.exists():
        lines = STATUS.read_text().splitlines()
        return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:")), 0)
    if resource is None:
        return 0
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def held() -> int:
    """Bytes in use now; the mark where the system does not report them."""
    if STATUS.exists():
        lines = STATUS.read_text().splitlines()
        return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("VmRSS:")), 0)
    return mark()
