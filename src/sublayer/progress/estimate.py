"""The time that is left, from the time that work has taken so far."""

from __future__ import annotations


class Estimate:
    """Assumes that the rest goes as fast as what was done since the first advance, which may include a slow start."""

    def __init__(self, done: float, now: float) -> None:
        self._begun = self._first = (done, now)
        self._end: float | None = None

    def advance(self, done: float, total: float | None, now: float) -> None:
        begun = self._begun if self._first == self._begun else self._first
        if done > begun[0] and total is not None:
            self._end = now + (now - begun[1]) * max(0.0, total - done) / (done - begun[0])
        if done > self._begun[0] and self._first == self._begun:
            self._first = (done, now)

    def left(self, now: float) -> float | None:
        """Seconds; None: not known yet, or longer than was thought."""
        return self._end - now if self._end is not None and self._end > now else None


def duration(seconds: float) -> str:
    """`35 s`, `2 min 10 s`, `3 h 20 min`, `2 days 4 h`."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return _two(whole // 60, "min", whole % 60, "s")
    minutes = round(seconds / 60)
    if minutes < 24 * 60:
        return _two(minutes // 60, "h", minutes % 60, "min")
    hours = round(seconds / 3600)
    return _two(hours // 24, "day" if hours < 48 else "days", hours % 24, "h")


def _two(large: int, unit: str, small: int, part: str) -> str:
    return f"{large} {unit} {small} {part}" if small else f"{large} {unit}"
