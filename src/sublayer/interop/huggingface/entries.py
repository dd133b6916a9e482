"""Entries: a checkpoint's config.json, value by value, with errors that name the file and the key."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

T = TypeVar("T")


class CheckpointError(ValueError):
    """A checkpoint that cannot be read or written: the path, what was expected, the remedy; one line."""


@dataclass(frozen=True)
class Entries:
    """A key that is absent or null has the default that transformers gives it."""

    values: Mapping[str, Any]
    path: Path = Path("config.json")

    def whole(self, key: str, default: int) -> int:
        value = self._get(key, default)
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise self.wrong(key, value, "a whole number above 0")
        return value

    def number(self, key: str, default: float) -> float:
        value = self._get(key, default)
        if not isinstance(value, int | float) or isinstance(value, bool) or not math.isfinite(value) or value < 0:
            raise self.wrong(key, value, "a number, 0 or more")
        return float(value)

    def flag(self, key: str, default: bool) -> bool:
        value = self._get(key, default)
        if not isinstance(value, bool):
            raise self.wrong(key, value, "true or false")
        return value

    def table(self, key: str) -> Mapping[str, Any]:
        value = self._get(key, {})
        if not isinstance(value, Mapping):
            raise self.wrong(key, value, "a table")
        return value

    def choice(self, key: str, default: str, known: Mapping[str, T]) -> T:
        value = self._get(key, default)
        if not isinstance(value, str) or value not in known:
            raise self.wrong(key, value, f"one of {', '.join(known)}")
        return known[value]

    def only(self, key: str, value: Any) -> None:
        """Refuse any other value: the models here do not compute it."""
        if self._get(key, value) != value:
            raise self.wrong(key, self.values[key], f"{value!r}, the only one that can be read")

    def wrong(self, key: str, value: Any, expected: str) -> CheckpointError:
        return CheckpointError(f"{self.path}: {key} is {value!r}, expected {expected}")

    def _get(self, key: str, default: Any) -> Any:
        value = self.values.get(key)
        return default if value is None else value
