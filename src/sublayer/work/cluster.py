"""The machines of a Ray cluster. When one is lost, its tasks are done again on the others.

Sublayer, and the plug-ins, must be installed on every machine; Ray itself is an extra, imported when it is used.
"""

from __future__ import annotations

import os
import shlex
import socket
import sys
import warnings
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, ClassVar

from sublayer.work.answer import get_ready, name_of, perform, read
from sublayer.work.pool import Function, Pool

RETRIES = 10
"""How often a task is begun again whose machine or process is lost."""
PATIENCE = 3.0
"""Seconds in which a cluster has to answer."""
QUIET = {
    # Nothing is reported over the network, and no advice on accelerators is printed.
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
}


class Cluster(Pool):
    shared: ClassVar[bool] = False

    def __init__(self, address: str, plugins: Sequence[str] = ()) -> None:
        self.ray, self.plugins = _import(), plugins
        self.owner = not self.ray.is_initialized()
        if self.owner:
            _connect(self.ray, address)

    def run(self, function: Function, tasks: Iterable[Any]) -> Iterator[tuple[int, Any]]:
        name, paths = name_of(function), [path or os.getcwd() for path in sys.path]
        # What a task refuses is a result to Ray: only a lost machine or process makes it try again.
        how = {"max_retries": RETRIES, "scheduling_strategy": "SPREAD", "num_cpus": 1}
        remote = self.ray.remote(**how)(do)
        waiting = {remote.remote(name, task, paths, list(self.plugins)): index for index, task in enumerate(tasks)}
        try:
            while waiting:
                (done, *_), _ = self.ray.wait(list(waiting), num_returns=1)
                index = waiting.pop(done)
                yield index, read(self._get(done))
        finally:
            for task in waiting:
                self.ray.cancel(task, force=True)

    def close(self) -> None:
        if self.owner:
            self.ray.shutdown()

    def _get(self, done: Any) -> dict[str, Any]:
        try:
            return self.ray.get(done)
        except self.ray.exceptions.RayError as error:
            reason = " ".join((str(error).strip().splitlines() or [type(error).__name__])[0].split())
            raise ValueError(f"ray: a task was lost {RETRIES + 1} times, at last by: {reason[:300]}") from None


def do(function: str, task: Any, paths: Sequence[str], plugins: Sequence[str]) -> dict[str, Any]:
    """On some machine of the cluster."""
    try:
        get_ready(paths, plugins)
    except ValueError as error:
        return {"refused": f"{socket.gethostname()}: {error}"}
    return perform(function, task)


def _import() -> Any:
    for name, value in QUIET.items():
        os.environ.setdefault(name, value)
    try:
        import ray
        import ray.exceptions
    except ImportError:
        raise ValueError("ray: not installed; pip install 'sublayer[cluster]', here and on every machine") from None
    return ray


def _connect(ray: Any, address: str) -> None:
    if address not in ("auto", "local"):
        _knock(address)
    quiet = {"logging_level": "ERROR", "log_to_driver": False}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of Ray's own making
            if address == "local":
                ray.init(address="local", include_dashboard=False, **quiet)
            else:
                ray.init(address=address, **quiet)
    except (ConnectionError, RuntimeError, ValueError, OSError) as error:
        reason = " ".join((str(error).strip().splitlines() or [type(error).__name__])[0].split())
        raise ValueError(f"ray={address}: {reason[:200]} {_remedy(address)}") from None


def _knock(address: str) -> None:
    """Ray itself would try for a minute where nobody answers."""
    host, _, port = address.rpartition(":")
    if not host or not port.isdigit():
        raise ValueError(f"ray={address!r}: expected auto, local or HOST:PORT, for example 10.0.0.1:6379")
    try:
        socket.create_connection((host, int(port)), PATIENCE).close()
    except (OSError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ValueError(f"ray={address}: nobody answers there ({reason}). {_remedy(address)}") from None


def _remedy(address: str) -> str:
    if address == "local":
        return "Use --workers instead of Ray"
    where = "" if address == "auto" else f", and on this one ray start {shlex.quote(f'--address={address}')}"
    return f"Start the cluster: ray start --head on one machine, ray start --address=… on the others{where}"
