"""A task and its result as plain data, to cross to another process and back without pickle."""

from __future__ import annotations

import importlib
import sys
import traceback
from collections.abc import Sequence
from importlib.metadata import entry_points
from typing import Any

from sublayer.executors.pool import Function


def name_of(function: Function) -> str:
    """`module:function`, by which another process imports it."""
    module, name = function.__module__, function.__qualname__
    if module == "__main__" or "<" in name:
        raise ValueError(
            f"{name}: other processes cannot import it from {module}; define it at the top of a module, or use one "
            "worker"
        )
    return f"{module}:{name}"


def perform(function: str, task: Any) -> dict[str, Any]:
    """Run a task. An error for the user comes back as `refused`, a defect of ours as `failed`."""
    try:
        module, _, name = function.partition(":")
        return {"result": getattr(importlib.import_module(module), name)(task)}
    except (ValueError, OSError, NotImplementedError) as error:
        if str(error):
            return {"refused": str(error)}
        return {"failed": traceback.format_exc()}
    except Exception:
        return {"failed": traceback.format_exc()}


def read(answer: dict[str, Any]) -> Any:
    """The result of a task, or its error."""
    if "refused" in answer:
        raise ValueError(answer["refused"])
    if "failed" in answer:
        raise RuntimeError(f"in another process:\n{answer['failed']}")
    return answer["result"]


def get_ready(paths: Sequence[str], plugins: Sequence[str]) -> None:
    """Import the plug-ins that the caller has imported."""
    sys.path.extend(path for path in paths if path not in sys.path)
    if not plugins and not entry_points(group="sublayer.plugins"):
        return  # a process without torch starts ten times as fast
    from sublayer.plugins import load_installed_plugins, load_plugin

    load_installed_plugins()
    for plugin in plugins:
        load_plugin(plugin)
