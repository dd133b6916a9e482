"""Several processes on this machine. One that dies is replaced, and its task is run again.

They are started by command, not by `multiprocessing`, which would import the user's script again in each of them. A
thread serves each: it writes a line with a task and waits for the line with its answer.
"""

from __future__ import annotations

import json
import logging
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import suppress
from queue import Empty, LifoQueue
from typing import Any

from sublayer.executors.pool import Function, Pool
from sublayer.executors.wire import name_of, read
from sublayer.training import launch

log = logging.getLogger("sublayer.executors")

TRIES = 3
"""How often a task is tried whose process dies."""
PATIENCE = 5
"""Seconds to wait for a process that has closed its output to end."""


class Processes(Pool):
    def __init__(self, workers: int, plugins: Sequence[str] = ()) -> None:
        self.workers, self.plugins = workers, plugins
        self._idle: LifoQueue[Process] = LifoQueue()
        self._all: set[Process] = set()
        self._closed = threading.Event()

    def run(self, function: Function, tasks: Iterable[Any]) -> Iterator[tuple[int, Any]]:
        name = name_of(function)
        executor = ThreadPoolExecutor(self.workers)
        indices = {executor.submit(self._run_task, name, task): index for index, task in enumerate(tasks)}
        done = False
        try:
            for future in as_completed(indices):
                yield indices[future], read(future.result())
            done = True
        finally:
            if not done:  # an error, or the caller stopped iterating
                self.close()
            executor.shutdown(wait=True, cancel_futures=True)

    def close(self) -> None:
        self._closed.set()
        for worker in list(self._all):
            worker.kill()
        while not self._idle.empty():
            self._idle.get().bury()
        self._all.clear()

    def _run_task(self, function: str, task: Any) -> dict[str, Any]:
        how = ""
        for _ in range(TRIES):
            if self._closed.is_set():
                break
            worker = self._take()
            answer = worker.ask(function, task)
            if answer is not None:
                self._idle.put(worker)
                return answer
            how = worker.bury()
            self._all.discard(worker)
        why = f"a task's process died {TRIES} times, {how}; fewer workers leave more memory to each"
        return {"refused": f"{why}. The task: {json.dumps(task)[:200]}"}

    def _take(self) -> Process:
        try:
            return self._idle.get_nowait()
        except Empty:
            worker = Process(launch.threads(self.workers), self.plugins)
            self._all.add(worker)
            if self._closed.is_set():
                worker.kill()
            return worker


class Process:
    """One process. It ends when its standard input closes, so it never outlives its owner."""

    def __init__(self, threads: int, plugins: Sequence[str], environment: Mapping[str, str] | None = None) -> None:
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 (open as long as the process is)
        self._how = ""
        variables = {"OMP_NUM_THREADS": str(threads), "PYTHONPATH": os.pathsep.join(_paths()), **(environment or {})}
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": self._errors}
        words = [sys.executable, "-m", "sublayer.executors.worker", *plugins]
        self._process = subprocess.Popen(words, env={**os.environ, **variables}, **pipes)

    def ask(self, function: str, task: Any) -> dict[str, Any] | None:
        """The answer; None if the process died before it gave one."""
        into, out = self._process.stdin, self._process.stdout
        assert into is not None
        assert out is not None
        # ValueError: the pipe was closed by `close`.
        with suppress(OSError, ValueError):
            into.write(json.dumps({"function": function, "task": task}).encode() + b"\n")
            into.flush()
            for line in out:
                answer = json.loads(line) if line.endswith(b"\n") else {}
                if "warning" in answer:
                    log.warning("%s", answer["warning"])
                elif answer:
                    return answer
        return None

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()

    def bury(self) -> str:
        """Why the process died; all its files are closed."""
        if self._errors.closed:
            return self._how
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(PATIENCE)
        self.kill()
        self._errors.seek(0)
        words = self._errors.read().decode(errors="replace").split("\n")
        last = next((line.strip() for line in reversed(words) if line.strip()), "")
        for file in (self._process.stdin, self._process.stdout, self._errors):
            with suppress(OSError):
                file.close()  # pyright: ignore[reportOptionalMemberAccess]
        code = self._process.returncode
        name = signal.Signals(-code).name if -code in set(signal.Signals) else f"exit code {code}"
        self._how = f"at last by {name}" + (f" ({last})" if last else "")
        return self._how


def _paths() -> list[str]:
    """Where this process imports from, with '' as the current folder."""
    return [path or os.getcwd() for path in sys.path]
