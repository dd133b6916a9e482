"""Several processes on this machine, by PyTorch's launcher: if one dies, all start again from the last checkpoint.

What PyTorch prints (its banner, tracebacks, lost connections) goes to RUN/processes.log. What a user should know goes
through a file of messages: the processes append their progress, warnings and the reasons why they ended, and the one
that launched them reports those. An error that would come again stops them at once; after others they start again.
"""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, BinaryIO, NoReturn

import torch
import torch.distributed as dist

from sublayer.runs import Lines
from sublayer.training.relay import Relay, repeat
from sublayer.training.reporters import ProgressReporter

log = logging.getLogger("sublayer.training")

RESTARTS = 3
"""Number of times that processes that died are started again."""
LOG = "processes.log"
ENVIRONMENT = {
    # Without it, the store of the killed group is found again, and the new one hangs or fails now and then.
    "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1",
    # DDP would warn that it looks for parameters without a gradient.
    "TORCH_CPP_LOG_LEVEL": "ERROR",
}
MESSAGES = "SUBLAYER_MESSAGES"
"""Environment variable with the path of the file of messages."""
PATIENCE = 40
"""Seconds that the launcher has to stop; it gives the processes 30 before it kills them."""


def check(processes: int, batch: int) -> None:
    """Refuse a number of processes that cannot train together."""
    if processes < 1:
        raise ValueError(f"processes={processes}: at least 1 is needed")
    if batch % processes:
        raise ValueError(
            f"train.batch={batch} cannot be shared evenly by {processes} processes; use a multiple of {processes}, or "
            "another number of processes"
        )


def threads(processes: int) -> int:
    """Processor threads of each process: OMP_NUM_THREADS, or an even share."""
    wanted = os.environ.get("OMP_NUM_THREADS", "")
    return int(wanted) if wanted.isdigit() else max(1, torch.get_num_threads() // processes)


def command(run: Path, processes: int, step: int | None = None, plugins: Sequence[str] = ()) -> list[str]:
    """The command that starts them; for more than one machine, see docs/distribution.md."""
    launcher = [sys.executable, "-m", "torch.distributed.run", f"--nproc-per-node={processes}"]
    # By this address, since a machine's own name need not be known to its network.
    here = ["--rdzv-backend=c10d", "--rdzv-endpoint=localhost:0", "--local-addr=127.0.0.1"]
    chosen = [] if step is None else ["--step", str(step)]
    loaded = [word for plugin in plugins for word in ("--plugin", plugin)]
    resume = ["-m", "sublayer.cli", "resume", str(run), *chosen, *loaded, "--quiet"]
    return [*launcher, *here, f"--max-restarts={RESTARTS}", *resume]


def launch(run: Path, processes: int, step: int | None, plugins: Sequence[str], reporter: ProgressReporter) -> None:
    """Train in so many processes and wait for their end; they stop when this one is stopped."""
    words = command(run, processes, step, plugins)
    with TemporaryDirectory(prefix="sublayer-") as folder, open(run / LOG, "wb") as noise:
        messages = Lines(Path(folder) / "messages.jsonl")
        variables = {MESSAGES: str(messages.path), "OMP_NUM_THREADS": str(threads(processes))}
        with _stopped_by_signals(), _started(words, variables, noise) as child:
            try:
                failures = _attend(child, messages, reporter)
            finally:
                reporter.stop()
    if child.returncode:
        raise ValueError(_describe(run, processes, failures))
    if not (run / LOG).stat().st_size:
        (run / LOG).unlink()


def _attend(child: subprocess.Popen[bytes], messages: Lines, reporter: ProgressReporter) -> list[dict[str, Any]]:
    """Report the messages of the processes until they end; returns why they failed, if they did."""
    failures, read, running = [], 0, True
    while running:
        try:
            child.wait(0.1)
            running = False
        except subprocess.TimeoutExpired:
            pass
        lines, read = messages.since(read)
        for line in lines:
            repeat(line, reporter)
            if "warning" in line:
                log.warning("%s", line["warning"])
            if "refused" in line:
                raise ValueError(line["refused"])
            if "failed" in line:
                failures.append(line)
    return failures


@contextmanager
def _started(words: list[str], variables: dict[str, str], noise: BinaryIO) -> Iterator[subprocess.Popen[bytes]]:
    """The launcher, stopped at the end. In a group of its own, so that Ctrl-C reaches this process alone.

    Nothing is written to the standard input of the processes: it ends when this one does, and so do they.
    """
    environment = {**os.environ, **ENVIRONMENT, **variables}
    with subprocess.Popen(words, env=environment, stdin=subprocess.PIPE, stderr=noise, process_group=0) as child:
        try:
            yield child
        finally:
            child.terminate()
            try:
                child.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                child.kill()


def _describe(run: Path, processes: int, failures: list[dict[str, Any]]) -> str:
    """Why the processes failed each time, in one line."""
    last = max((line["attempt"] for line in failures), default=0)
    reasons = [line["failed"] for line in failures if line["attempt"] == last and not line["lost"]]
    how = (
        f"{'the last time ' if last else ''}by {reasons[0]}"
        if reasons
        else "without a message, as when one is killed for want of memory"
    )
    times = f"{last + 1} times" if last else "once"
    return f"{run}: its {processes} processes failed {times}, {how}. All they printed is in {run / LOG}"


@contextmanager
def _stopped_by_signals() -> Iterator[None]:
    """SIGTERM and SIGHUP end this process as Ctrl-C does, by an exception, unless they have handlers or are ignored."""

    def leave(number: int, frame: object) -> NoReturn:
        raise SystemExit(128 + number)

    main = threading.current_thread() is threading.main_thread()
    numbers = [n for n in (signal.SIGTERM, signal.SIGHUP) if main and signal.getsignal(n) is signal.SIG_DFL]
    for number in numbers:
        signal.signal(number, leave)
    try:
        yield
    finally:
        for number in numbers:
            signal.signal(number, signal.SIG_DFL)


@contextmanager
def reporting() -> Iterator[ProgressReporter | None]:
    """In a process that `launch` started: write messages for it, and yield the reporter that does. Elsewhere: None."""
    if MESSAGES not in os.environ:
        yield None
        return
    messages, attempt = Lines(Path(os.environ[MESSAGES])), int(os.environ.get("TORCHELASTIC_RESTART_COUNT", 0))
    threading.Thread(target=_end_with_launcher, daemon=True).start()
    if os.environ.get("RANK") == "0":
        logging.getLogger("sublayer").addHandler(_Warnings(messages))
    else:
        os.dup2(2, 1)  # only the first process writes to standard output
    try:
        yield Relay(messages)
    except Exception as error:
        if isinstance(error, (ValueError, OSError, NotImplementedError)) and str(error):
            messages.add({"refused": str(error)})
            raise
        reason = f"{type(error).__name__}: {(str(error).splitlines() or [''])[0]}"
        messages.add({"failed": reason, "lost": _lost(error), "attempt": attempt})
        raise


class _Warnings(logging.Handler):
    """Warnings, as messages to the launcher."""

    def __init__(self, messages: Lines) -> None:
        super().__init__(logging.WARNING)
        self.messages = messages

    def emit(self, record: logging.LogRecord) -> None:
        self.messages.add({"warning": record.getMessage()})


def _lost(error: Exception) -> bool:
    """Whether the error only means that another process is gone."""
    return isinstance(error, dist.DistError) or "gloo" in str(error)


def _end_with_launcher() -> None:
    """The launcher may be killed, with no time to stop this process: then its standard input ends."""
    os.read(0, 1)
    os._exit(1)
