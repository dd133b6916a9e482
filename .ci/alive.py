"""Run a command that is never silent: python .ci/alive.py WHAT COMMAND…

After a few seconds without output it prints a line of its own, `… WHAT, 35 s`, in a terminal and in a log. Everything
else passes through unchanged, the exit code too. Only the standard library, since it runs before anything is installed.
"""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import sys
import time
from typing import BinaryIO

EVERY = 4.0
"""Seconds of silence after which a line is printed."""


def main(what: str, command: list[str], every: float = EVERY) -> int:
    begun = time.monotonic()
    _write(sys.stdout.buffer, f"{what} …\n".encode())
    with selectors.DefaultSelector() as selector:
        child = _start(command, selector)
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # the child has it, too, and ends in its own way
        signal.signal(signal.SIGTERM, lambda *_: child.terminate())
        ended = True  # whether the output so far ends a line
        while selector.get_map():
            ready = selector.select(every)
            for key, _ in ready:
                chunk = _read(key.fd)
                if chunk:
                    _write(key.data, chunk)
                    ended = chunk.endswith(b"\n")
                else:
                    selector.unregister(key.fileobj)
            if not ready:
                _write(sys.stdout.buffer, (b"" if ended else b"\n") + _beat(what, begun))
                ended = True
    code = child.wait()
    return code if code >= 0 else 128 - code


def _beat(what: str, begun: float) -> bytes:
    return f"… {what}, {time.monotonic() - begun:.0f} s\n".encode()


def _start(command: list[str], selector: selectors.BaseSelector) -> subprocess.Popen[bytes]:
    """In a terminal the child has one, too, so that it draws its bars and colours; otherwise pipes."""
    env = {**os.environ, "PYTHONUNBUFFERED": "1"}
    if not sys.stdout.isatty():
        child = subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        selector.register(child.stdout, selectors.EVENT_READ, sys.stdout.buffer)  # pyright: ignore[reportArgumentType]
        selector.register(child.stderr, selectors.EVENT_READ, sys.stderr.buffer)  # pyright: ignore[reportArgumentType]
        return child
    import pty
    import termios

    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, termios.tcgetwinsize(sys.stdout.fileno()))
    child = subprocess.Popen(command, env=env, stdout=theirs, stderr=theirs)
    os.close(theirs)
    selector.register(ours, selectors.EVENT_READ, sys.stdout.buffer)
    return child


def _read(fd: int) -> bytes:
    try:
        return os.read(fd, 1 << 16)
    except OSError:  # a terminal whose other end is closed
        return b""


def _write(to: BinaryIO, chunk: bytes) -> None:
    to.write(chunk)
    to.flush()


if __name__ == "__main__":
    every = float(os.environ.get("ALIVE_EVERY", EVERY))
    sys.exit(main(sys.argv[1], sys.argv[2:], every))
