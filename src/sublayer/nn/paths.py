"""Fast paths: looked up, not wired in.

A fast path is one file that decides which calls it serves and gives the reason where it does not. Calls that no path
serves take the plain code, which is always right. `report` gives the path a module takes, and why not a faster one;
`by_slow_twins` turns all fast paths off and runs the slow twin of every part that has one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Literal

Mode = Literal["training", "generation"]
PLAIN = "plain PyTorch"
"""What runs where no fast path serves."""
UNRELATED = "unrelated"
"""The answer of a path that has nothing to do with a module; reports leave it out."""
_slow: ContextVar[bool] = ContextVar("slow", default=False)


@dataclass(frozen=True)
class FastPath:
    """One way to do a job faster than the plain code."""

    job: str
    """The job it does: attention, feedforward, stack, generation."""
    name: str
    """As `sublayer show` prints it."""
    why_not: Callable[[Any, Mode], str | None]
    """For a module: the reason why the path does not serve it; None if it does, UNRELATED if it is not meant for it."""
    serves: Callable[..., bool]
    """For the arguments of one call: whether the path runs it."""
    run: Callable[..., Any]


_paths: dict[str, list[FastPath]] = {}


def register(path: FastPath) -> FastPath:
    """Add a path; those registered first are asked first."""
    known = _paths.setdefault(path.job, [])
    _paths[path.job] = [other for other in known if other.name != path.name] + [path]
    return path


def registered(job: str) -> list[FastPath]:
    return list(_paths.get(job, ()))


def find(job: str, *call: Any) -> FastPath | None:
    """The first path that serves this call; None: the plain code runs."""
    if _slow.get():
        return None
    for path in _paths.get(job, ()):
        if path.serves(*call):
            return path
    return None


@dataclass(frozen=True)
class Choice:
    """Which path a module takes, and why not the faster ones."""

    path: str
    why_not: tuple[tuple[str, str], ...] = ()
    """Each faster path with the reason why it is not taken."""


def report(job: str, module: Any, mode: Mode, plain: str = PLAIN) -> Choice:
    """The path that a module takes by its configuration; the sizes of a single call may still rule it out."""
    refused = []
    for path in _paths.get(job, ()):
        reason = path.why_not(module, mode)
        if reason is None:
            return Choice(path.name, tuple(refused))
        if reason != UNRELATED:
            refused.append((path.name, reason))
    return Choice(plain, tuple(refused))


def slow() -> bool:
    """Whether slow twins are switched on."""
    return _slow.get()


@contextmanager
def by_slow_twins() -> Iterator[None]:
    """No fast path, and the slow twin of every part that has one."""
    token = _slow.set(True)
    try:
        yield
    finally:
        _slow.reset(token)
