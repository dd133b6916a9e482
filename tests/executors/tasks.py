"""Functions for pools to run."""

import logging
import os
import signal
from pathlib import Path
from typing import Any


def double(number: int) -> int:
    return 2 * number


def where(task: Any) -> dict[str, Any]:
    return {"pid": os.getpid(), "threads": os.environ.get("OMP_NUM_THREADS")}


def refuse(number: int) -> int:
    if number == 2:
        raise ValueError(f"number={number}: is two; use another")
    return number


def divide(number: int) -> float:
    return 1 / number


def warn(number: int) -> int:
    logging.getLogger("sublayer.here").warning("careful with %d", number)
    print("noise")  # noqa: T201
    return number


def die_once(task: dict[str, Any]) -> int:
    """Its process is killed the first time."""
    mark = Path(task["folder"]) / str(task["number"])
    if not mark.exists():
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return task["number"]


def die(task: Any) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def wait(task: Any) -> None:
    """Until somebody ends the process."""
    signal.pause()


def meet(task: dict[str, Any]) -> dict[str, Any]:
    """On the node that is to be killed: say so, and stay. On the other: go on once that was said."""
    import ray

    node, meeting, met = ray.get_runtime_context().get_node_id(), Path(task["folder"]), Path(task["folder"]) / "met"
    if node == task["doomed"]:
        open(meeting / "meeting", "w").close()
        signal.pause()
    if not met.exists():
        open(meeting / "meeting").close()  # a pipe: opens when the other end does
        met.touch()
    return {"number": task["number"], "node": node}
