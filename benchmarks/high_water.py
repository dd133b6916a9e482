"""Memory that one run needs: the high-water increase of a fresh process. Run as a script, this file is that process."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from sublayer.measurement import high_water


def rise(file: str, function: str, **arguments: Any) -> int:
    """Bytes by which a run raises the high-water mark of a process of its own.

    There `function` of `file` imports, builds, and returns what is to be run: none of that is counted.
    """
    command = [sys.executable, __file__, file, function, json.dumps(arguments)]
    answer = subprocess.run(command, capture_output=True, text=True)
    if answer.returncode:
        raise RuntimeError(f"{function} of {file} failed in its own process:\n{answer.stderr.strip()}")
    return int(answer.stdout.split()[-1])


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
    print(high_water.rise(getattr(_load(file), function)(**json.loads(arguments))))
