"""A process that runs tasks, one per line of its input: `python -m sublayer.executors.worker [PLUGIN …]`."""

from __future__ import annotations

import json
import logging
import os
import signal
import sys
import threading
from queue import SimpleQueue
from typing import Any, BinaryIO

from sublayer.executors.wire import get_ready, perform


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the owner, which ends this process
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a task prints must not mix with answers
    logging.getLogger("sublayer").addHandler(Relay(answers))
    asked: SimpleQueue[dict[str, Any]] = SimpleQueue()
    threading.Thread(target=listen, args=(asked,), daemon=True).start()
    refused: dict[str, Any] = {}
    try:
        get_ready((), sys.argv[1:])
    except ValueError as error:
        refused = {"refused": str(error)}
    while True:
        task = asked.get()
        write(answers, refused or perform(task["function"], task["task"]))


def listen(asked: SimpleQueue[dict[str, Any]]) -> None:
    """Read tasks. When the owner is killed, this process ends, too, even in the middle of a task."""
    for line in sys.stdin.buffer:
        asked.put(json.loads(line))
    os._exit(1)


def write(answers: BinaryIO, answer: dict[str, Any]) -> None:
    answers.write(json.dumps(answer).encode() + b"\n")
    answers.flush()


class Relay(logging.Handler):
    """Sends warnings to the owner."""

    def __init__(self, answers: BinaryIO) -> None:
        super().__init__(logging.WARNING)
        self.answers = answers

    def emit(self, record: logging.LogRecord) -> None:
        write(self.answers, {"warning": record.getMessage()})


if __name__ == "__main__":
    main()
