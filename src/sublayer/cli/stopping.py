"""Ctrl-C and SIGTERM: what is saved, and the command that goes on, instead of a traceback.

The first signal raises an exception, so that files are closed and other processes ended; a second one ends this process
at once, which loses nothing either: files are written whole or not at all.
"""

from __future__ import annotations

import os
import shlex
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import NoReturn

SHOW_CURSOR = b"\x1b[?25h"
received: list[StopSignal] = []
"""The first signal, once it has come. Other libraries may raise another exception in its place, as pydantic does."""
typed: list[str] = []
"""The words of the command that is run."""


class StopSignal(KeyboardInterrupt):
    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.exit_code = 128 + number


@contextmanager
def stopped_by_signals(words: Sequence[str] = ()) -> Iterator[None]:
    """Raise StopSignal at the first signal; restores handlers at the end. A signal that is ignored stays so (nohup).

    A process that a launcher started keeps what it has: the launcher ends it, and reports.
    """
    typed[:] = words
    main = threading.current_thread() is threading.main_thread() and "RANK" not in os.environ
    wanted = [signal.SIGINT, signal.SIGTERM] if main else []
    before = {number: signal.getsignal(number) for number in wanted}
    before = {number: handler for number, handler in before.items() if handler != signal.SIG_IGN}
    for number in before:
        signal.signal(number, _first)
    try:
        yield
    finally:
        received.clear()
        for number, handler in before.items():
            signal.signal(number, handler)


def _first(number: int, frame: object) -> NoReturn:
    for one in (signal.SIGINT, signal.SIGTERM):
        signal.signal(one, _second)
    received.append(StopSignal(number))
    raise received[-1]


def _second(number: int, frame: object) -> NoReturn:
    if sys.stderr.isatty():
        with suppress(OSError):
            os.write(2, SHOW_CURSOR)
    os._exit(128 + number)


@contextmanager
def when_stopped(describe: Callable[[], str]) -> Iterator[None]:
    """Print what is described if the block is stopped, and exit with 130 after Ctrl-C, 143 after SIGTERM."""
    try:
        yield
    except (KeyboardInterrupt, Exception) as error:
        if (stop := stop_behind(error)) is None:
            raise
        print(describe(), file=sys.stderr)
        sys.exit(exit_code(stop))


def stop_behind(error: BaseException) -> KeyboardInterrupt | None:
    """The stop that ended the work, also where it shows as another exception; None if nothing stopped it."""
    return error if isinstance(error, KeyboardInterrupt) else next(iter(received), None)


def exit_code(error: KeyboardInterrupt) -> int:
    return error.exit_code if isinstance(error, StopSignal) else 130


def same_command() -> str:
    """`Continue by the same command: sublayer search …`."""
    return f"Continue by the same command: {shlex.join(['sublayer', *typed])}"
