"""Memory that one run needs: the high-water increase of a fresh process. Run as a script, this file is that process."""

from __future__ import annotations

import ctypes
import gc
import importlib.util
import json
import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any


def rise(file: str, function: str, **arguments: Any) -> int:
    """Bytes by which a run raises the high-water mark of a process of its own.

    There `function` of `file` imports, builds, and returns what is to be run: none of that is counted.
    """
    command = [sys.executable, __file__, file, function, json.dumps(arguments)]
    answer = subprocess.run(command, capture_output=True, text=True)
    if answer.returncode:
        raise RuntimeError(f"{function} of {file} failed in its own process:\n{answer.stderr.strip()}")
    return int(answer.stdout.split()[-1])


def rise_here(run: Callable[[], object]) -> int:
    """The same in this process; sound only if it has done little else."""
    gc.collect()
    if not _reset():
        return _rise_of_maxrss(run)
    before = _high_water()
    run()
    return _high_water() - before


def _reset() -> bool:
    """Bring the high-water mark down to what is in use; False where the system cannot."""
    try:
        # Else pages that building freed, and the allocator kept, would be filled again unseen.
        ctypes.CDLL(None).malloc_trim(0)
        Path("/proc/self/clear_refs").write_text("5")
    except (AttributeError, OSError):
        return False
    return True


def _high_water() -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:"))


def _rise_of_maxrss(run: Callable[[], object]) -> int:
    """Too low where building needed more than running does: here the mark cannot be reset."""
    unit = 1 if sys.platform == "darwin" else 1024
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    run()
    return (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * unit


def _load(file: str) -> Any:
    sys.path.insert(0, str(Path(file).parent))
    spec = importlib.util.spec_from_file_location(Path(file).stem, file)
    if spec is None or spec.loader is None:
        raise ValueError(f"{file}: not a Python file")
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


if __name__ == "__main__":
    file, function, arguments = sys.argv[1:]
    print(rise_here(getattr(_load(file), function)(**json.loads(arguments))))
