"""Display: a bar with the time left where stderr is a terminal, elsewhere a plain line at least every ten seconds."""

from __future__ import annotations

import logging
import sys
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Self

from sublayer.progress.estimate import Estimate, duration

if TYPE_CHECKING:
    from rich.console import RenderableType

FIRST, EVERY = 2.0, 8.0
"""Seconds before the first line in a log, and between two of them."""
TICK = 1.0
"""Seconds between two looks at the clock."""
PREPARING = "sublayer.data"
"""The logger of the data room, whose messages name what is read, learned and tokenised."""


class Display:
    """`with Display("training", total=100) as display: display.update(20)`.

    Work has phases, one after another: `begin` names the next. A quiet display shows nothing.
    """

    def __init__(
        self,
        phase: str,
        total: float | None = None,
        *,
        quiet: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.stream, self.quiet, self.clock = sys.stderr, quiet, clock
        self.terminal = not quiet and self.stream.isatty()
        self.below: RenderableType | None = None
        """Shown below the bar, on a terminal."""
        self._poll: Callable[[], object] | None = None
        self._lock = threading.RLock()
        self._last = clock() - EVERY + FIRST
        self._over = threading.Event()
        self._ticker = threading.Thread(target=self._tick_on, daemon=True)
        self._bar: Any = None
        self._preparing = _Preparing(self)
        self.begin(phase, total)

    # What the work reports

    def begin(self, phase: str, total: float | None = None, done: float = 0.0, *, counted: bool = True) -> None:
        """A phase begins, of which `done` was done before. counted: `3 of 20` is worth showing."""
        with self._lock:
            self.phase, self.total, self.done, self.counted, self.status = phase, total, done, counted, ""
            self.begun, self._poll = self.clock(), None
            self._estimate = Estimate(done, self.begun)

    def begin_timed(self, phase: str, seconds: float) -> None:
        """A phase begins that reports nothing, and takes about so many seconds."""
        self.begin(phase, seconds, counted=False)
        begun = self.begun
        self.watch(lambda: self.update(min(self.clock() - begun, seconds)))

    def update(self, done: float, total: float | None = None, status: str | None = None) -> None:
        with self._lock:
            self.done, self.total = done, self.total if total is None else total
            self.status = self.status if status is None else status
            self._estimate.advance(self.done, self.total, self.clock())

    def reach(self, phase: str, done: float, total: float) -> None:
        """`begin` where the phase is another one, then `update`."""
        if phase != self.phase:
            self.begin(phase, total, done)
        self.update(done, total)

    def watch(self, look: Callable[[], object]) -> None:
        """Call `look`, which updates, every second until the next phase: for work that reports by its files alone."""
        self._poll = look

    @property
    def watching(self) -> bool:
        return self._poll is not None

    def print(self, line: RenderableType) -> None:
        """A line that stays, above the bar."""
        if self.quiet:
            return
        if self._bar is not None:
            self._bar.console.print(line, highlight=False, markup=False, soft_wrap=True)
        else:
            print(line, file=self.stream, flush=True)

    # What is shown

    @property
    def left(self) -> float | None:
        """Seconds until the phase ends; None: not known."""
        return self._estimate.left(self.clock())

    @property
    def count(self) -> str:
        return f"{self.done:,.0f} of {self.total:,.0f}" if self.counted and self.total else ""

    @property
    def time(self) -> str:
        left = self.left
        took = self.clock() - self.begun
        return f"{duration(took)} so far" if left is None else f"about {duration(left)} left"

    def line(self) -> str:
        """`… measuring sublayers: 20 of 208, about 35 s left`."""
        return f"… {self.phase}: " + ", ".join(filter(None, (self.count, self.status, self.time)))

    def tick(self) -> None:
        """Look at what is watched; in a log, print the line, if it is time to."""
        with self._lock:
            if self._poll is not None:
                self._poll()
        if not self.terminal and self.clock() - self._last >= EVERY:
            self.show_line()

    def show_line(self) -> None:
        self._last = self.clock()
        self.print(self.line())

    def _tick_on(self) -> None:
        while not self._over.wait(TICK):
            self.tick()

    # From the beginning to the end

    def __enter__(self) -> Self:
        if self.quiet:
            return self
        if self.terminal:
            from sublayer.progress.bar import Bar

            self._bar = Bar(self)
            self._bar.start()
        self._preparing.attach()
        self._ticker.start()
        return self

    def __exit__(self, *error: object) -> None:
        if self.quiet:
            return
        self._over.set()
        self._ticker.join()
        self._preparing.detach()
        if self._bar is not None:
            self._bar.stop()
            self._bar = None


class _Preparing(logging.Handler):
    """Shows what the data room does; `done` and `total` of a message, where it has them, are how far it is."""

    def __init__(self, display: Display) -> None:
        super().__init__(logging.INFO)
        self.display, self.logger, self.level_before = display, logging.getLogger(PREPARING), logging.NOTSET

    def attach(self) -> None:
        self.level_before = self.logger.level
        self.logger.setLevel(logging.INFO)
        self.logger.addHandler(self)

    def detach(self) -> None:
        self.logger.removeHandler(self)
        self.logger.setLevel(self.level_before)

    def emit(self, record: logging.LogRecord) -> None:
        if record.levelno > logging.INFO or self.display.watching:  # warnings are printed by others
            return
        done, total = (getattr(record, name, None) for name in ("done", "total"))
        phase = record.getMessage()
        if phase != self.display.phase:
            self.display.begin(phase, total, counted=False)
        if done is not None:
            self.display.update(done, total)
