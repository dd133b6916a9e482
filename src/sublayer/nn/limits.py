"""Limits that may be absent: None means unlimited."""

from __future__ import annotations

from collections.abc import Iterable


def least(*limits: int | None) -> int | None:
    """The smallest limit; None means unlimited."""
    known = [limit for limit in limits if limit is not None]
    return min(known) if known else None


def most(limits: Iterable[int | None], default: int | None = None) -> int | None:
    """The largest limit; None means unlimited, and so does one None among them. `default`: of no limits at all."""
    known = list(limits)
    if not known:
        return default
    return None if None in known else max(limit for limit in known if limit is not None)
