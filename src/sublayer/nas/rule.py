"""Rule: a bound on one key by another, as text: `f.inner>1.7*dim`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sublayer.nn.config import ConfigError

FORM = re.compile(r"\s*([\w.]+)\s*([<>])\s*(?:(\d+(?:\.\d+)?)\s*\*\s*)?([A-Za-z_][\w.]*)\s*")


@dataclass(frozen=True)
class Rule:
    """Every value of `key` is greater (or less) than `factor` times the value of `other`."""

    key: str
    greater: bool
    factor: float
    other: str

    @classmethod
    def parse(cls, text: str) -> Rule:
        found = FORM.fullmatch(text)
        if not found:
            raise ConfigError(f"{text!r} is not a rule; write KEY>NUMBER*KEY, for example f.inner>1.7*dim")
        return cls(found[1], found[2] == ">", float(found[3] or 1), found[4])

    def allows(self, value: Any, genes: Mapping[str, Any]) -> bool:
        bound = self.factor * genes[self.other]
        return value > bound if self.greater else value < bound

    def __str__(self) -> str:
        return f"{self.key}{'>' if self.greater else '<'}{self.factor:g}*{self.other}"
