"""Choice: the values that one key of a config may take; as text `2|4|8`, `128..512/64`, `each(2|4|8)`."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from itertools import pairwise
from random import Random
from typing import Any

from sublayer.nn.config import ConfigError

RANGE = re.compile(r"(-?\d+)\.\.(-?\d+)(?:/(\d+))?")
EACH = re.compile(r"each\((.*)\)", re.DOTALL)
WORD = re.compile(r"[A-Za-z_(][\w() ]*[\w)]|[A-Za-z_]")
"""Texts that need no quotes: names, layouts."""
OPEN, CLOSE = "([{", ")]}"
MOST = 100_000
"""Largest number of values of one choice, so that a slip in a range does not fill the memory."""


@dataclass(frozen=True)
class Choice:
    """Values to choose from. With `each`, every occurrence of the key's letter chooses for itself."""

    values: tuple[Any, ...]
    each: bool = False

    def __post_init__(self) -> None:
        if not self.values:
            raise ConfigError("a choice has no values; write for example 2|4|8 or 128..512/64")
        texts = [json.dumps(value, sort_keys=True) for value in self.values]
        twice = next((text for text in texts if texts.count(text) > 1), None) if len(texts) < 1000 else None
        if twice is not None:
            raise ConfigError(f"a choice has {twice} twice; name each value once")

    def pick(self, rng: Random) -> Any:
        return self.values[rng.randrange(len(self.values))]

    @property
    def steps(self) -> tuple[int, int, int] | None:
        """Lowest, highest and step, where the values are whole numbers evenly spaced, three or more."""
        values = self.values
        if len(values) < 3 or not all(type(value) is int for value in values):
            return None
        step = values[1] - values[0]
        even = step > 0 and all(low + step == high for low, high in pairwise(values))
        return (values[0], values[-1], step) if even else None

    @classmethod
    def of(cls, given: Choice | str | list[Any] | tuple[Any, ...]) -> Choice:
        """A choice, its text, or a list of values."""
        if isinstance(given, Choice):
            return given
        return cls.parse(given) if isinstance(given, str) else cls(tuple(given))

    @classmethod
    def parse(cls, text: str) -> Choice:
        """`2|4|8`, `128..512/64`, both mixed, or `each(…)` of them; values are JSON, or words without quotes."""
        inside = EACH.fullmatch(text.strip())
        values: list[Any] = []
        for item in split(inside[1] if inside else text):
            values += _values(item.strip(), text)
        return cls(tuple(values), each=inside is not None)

    def __str__(self) -> str:
        inside = "{}..{}/{}".format(*self.steps) if self.steps else "|".join(_text(value) for value in self.values)
        return f"each({inside})" if self.each else inside


def chooses(text: str) -> bool:
    """Whether the value of a `key=value` word is a choice rather than a plain value."""
    text = text.strip()
    return len(split(text)) > 1 or bool(RANGE.fullmatch(text) or EACH.fullmatch(text))


def split(text: str) -> list[str]:
    """Split at every | outside brackets and quotes."""
    pieces, depth, quoted, escaped = [""], 0, False, False
    for mark in text:
        if mark == '"' and not escaped:
            quoted = not quoted
        escaped = mark == "\\" and quoted and not escaped
        depth += 0 if quoted else (mark in OPEN) - (mark in CLOSE)
        if mark == "|" and depth == 0 and not quoted:
            pieces.append("")
        else:
            pieces[-1] += mark
    return pieces


def _values(item: str, whole: str) -> list[Any]:
    if not item:
        raise ConfigError(f"choice {whole!r} has an empty value; write for example 2|4|8")
    span = RANGE.fullmatch(item)
    if not span:
        return [_value(item)]
    low, high, step = int(span[1]), int(span[2]), int(span[3] or 1)
    if step < 1:
        raise ConfigError(f"choice {whole!r}: a step of {step} has no effect; take at least 1, as in 128..512/64")
    if high < low:
        raise ConfigError(f"choice {whole!r}: {item} is empty; write the lower bound first, as in 128..512/64")
    if (high - low) // step >= MOST:
        raise ConfigError(f"choice {whole!r}: {item} has {(high - low) // step + 1:,} values; take a larger step")
    return list(range(low, high + 1, step))


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text
    except RecursionError:
        raise ConfigError(f"choice {text[:40]}…: nested too deeply; no config has so many levels") from None


def _text(value: Any) -> str:
    """As `_value` reads it back: words without quotes, the rest as JSON."""
    if not isinstance(value, str) or not WORD.fullmatch(value) or _value(value) != value or EACH.fullmatch(value):
        return json.dumps(value)
    return value if split(f"{value}|") == [value, ""] else json.dumps(value)
