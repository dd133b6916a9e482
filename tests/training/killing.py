"""Processes that are killed: at the n-th thing they do to files, or after so much of their time."""

import builtins
import os
import signal
import sys
import time
import traceback
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

CHANGES = {"os.rename", "os.remove", "os.rmdir", "os.mkdir", "os.truncate"}


@dataclass(frozen=True)
class Life:
    """Of a process that came to its end."""

    events: int
    seconds: float


def live(work: Callable[[], Any], folder: Path, event: int | None = None, seconds: float | None = None) -> Life | None:
    """Do the work in a process of its own; None if it was killed, at that event in the folder or after that time."""
    reader, writer = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # xdist's thread, which the child does not need
        child = os.fork()
    if not child:
        os.close(reader)
        _live(work, writer, Events(folder, event), seconds)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        said = pipe.read().decode()
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        assert os.WTERMSIG(status) in (signal.SIGKILL, signal.SIGPROF)
        return None
    words = said.split()
    assert words[0] == "lived", said
    return Life(int(words[1]), float(words[2]))


def _live(work: Callable[[], Any], pipe: int, events: "Events", seconds: float | None) -> None:
    said = ""
    try:
        torch.set_num_threads(1)  # threads do not survive a fork
        events.watch()
        if seconds is not None:
            # Unhandled, SIGPROF ends a process on the spot, as SIGKILL does; it counts the process's own time.
            signal.signal(signal.SIGPROF, signal.SIG_DFL)
            signal.setitimer(signal.ITIMER_PROF, seconds)
        begun = time.process_time()
        work()
        said = f"lived {events.count} {time.process_time() - begun}"
    except BaseException:
        said = traceback.format_exc()
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        os.write(pipe, said.encode())
        os._exit(0)


class Events:
    """Counts what this process does to files: opening those of a folder, writing, syncing, renaming, removing."""

    def __init__(self, folder: Path, last: int | None) -> None:
        self.folder, self.last, self.count = str(folder), last, 0

    def watch(self) -> None:
        opened = builtins.open

        def torn(file: Any, mode: str = "r", *args: Any, **kwargs: Any) -> Any:
            made = opened(file, mode, *args, **kwargs)
            return made if mode in ("r", "rb") else Torn(made, self)

        builtins.open = torn
        os.fsync = lambda handle: self.happen()  # a kill loses nothing that was written, so there is no need to wait
        sys.addaudithook(self._hear)

    def happen(self, last_words: Callable[[], Any] = lambda: None) -> None:
        self.count += 1
        if self.count == self.last:
            last_words()
            os.kill(os.getpid(), signal.SIGKILL)

    def _hear(self, name: str, args: tuple[Any, ...]) -> None:
        if name in CHANGES or (name == "open" and str(args[0]).startswith(self.folder)):
            self.happen()


class Torn:
    """A file, of whose last write only half may arrive."""

    def __init__(self, file: Any, events: Events) -> None:
        self.file, self.events = file, events

    def write(self, data: bytes) -> int:
        self.events.happen(lambda: (self.file.write(data[: len(data) // 2]), self.file.flush()))
        return self.file.write(data)

    def __enter__(self) -> "Torn":
        return self

    def __exit__(self, *error: object) -> None:
        self.file.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.file, name)
