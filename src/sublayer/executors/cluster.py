"""The machines of a Ray cluster. When one is lost, its tasks are run again on the others.

Sublayer, and the plug-ins, must be installed on every machine; Ray itself is an extra, imported when it is used.
"""

from __future__ import annotations

import os
import shlex
import socket
import sys
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any, ClassVar

from sublayer.executors.pool import Function, Pool
from sublayer.executors.wire import get_ready, name_of, perform, read

RETRIES = 10
"""How often a task is restarted whose machine or process was lost."""
PATIENCE = 3.0
"""Seconds to wait for a cluster's answer."""
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])
"""The connection preface of HTTP/2 (RFC 9113, section 3.4), followed by an empty SETTINGS frame."""
SETTINGS = 4
TRIES = "RAY_gcs_server_port_wait_time_s"
"""The variable with the seconds, and tries, that Ray spends on finding a cluster."""
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
        # A task's error is a result to Ray: only a lost machine or process makes it retry.
        how = {"max_retries": RETRIES, "scheduling_strategy": "SPREAD", "num_cpus": 1}
        remote = self.ray.remote(**how)(run_task)
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


def run_task(function: str, task: Any, paths: Sequence[str], plugins: Sequence[str]) -> dict[str, Any]:
    """Run a task, on some machine of the cluster."""
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
    named = address not in ("auto", "local")
    if named:
        _check_address(address)
    quiet = {"logging_level": "ERROR", "log_to_driver": False}
    try:
        with warnings.catch_warnings(), _briefly() if named else nullcontext():
            warnings.simplefilter("ignore")  # Ray's own warnings
            if address == "local":
                ray.init(address="local", include_dashboard=False, **quiet)
            else:
                ray.init(address=address, **quiet)
    except (ConnectionError, RuntimeError, ValueError, OSError) as error:
        reason = " ".join((str(error).strip().splitlines() or [type(error).__name__])[0].split())
        raise ValueError(f"ray={address}: {reason[:200].rstrip('.')}. {_remedy(address)}") from None


@contextmanager
def _briefly() -> Iterator[None]:
    """Try only for PATIENCE seconds, silently: with a gRPC server that is not Ray's it would take minutes."""
    before, errors = os.environ.get(TRIES), os.dup(2)
    os.environ.setdefault(TRIES, str(round(PATIENCE)))
    try:
        with open(os.devnull, "wb") as nowhere:
            os.dup2(nowhere.fileno(), 2)
        yield
    finally:
        os.dup2(errors, 2)
        os.close(errors)
        if before is None:
            del os.environ[TRIES]


def _check_address(address: str) -> None:
    """Check that a Ray cluster may be there; Ray itself would try for minutes."""
    host, _, port = address.rpartition(":")
    if not host or not port.isdigit():
        raise ValueError(f"ray={address!r}: expected auto, local or HOST:PORT, for example 10.0.0.1:6379")
    try:
        with socket.create_connection((host, int(port)), PATIENCE) as there:
            speaks = _speaks_http2(there)
    except (OSError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ValueError(f"ray={address}: nobody answers there ({reason}). {_remedy(address)}") from None
    if not speaks:
        raise ValueError(f"ray={address}: what answers there is no Ray cluster. {_remedy(address)}")


def _speaks_http2(there: socket.socket) -> bool:
    """Whether the server speaks HTTP/2, as Ray does: its first frame is SETTINGS. Under TLS this cannot be checked."""
    if os.environ.get("RAY_USE_TLS", "0") != "0":
        return True
    try:
        there.sendall(PREFACE)
        frame = there.recv(9)
    except OSError:  # it accepts connections, but does not answer
        return False
    return len(frame) > 3 and frame[3] == SETTINGS


def _remedy(address: str) -> str:
    if address == "local":
        return "Use --workers instead of Ray"
    where = "" if address == "auto" else f", and on this one ray start {shlex.quote(f'--address={address}')}"
    return f"Start the cluster: ray start --head on one machine, ray start --address=… on the others{where}"
