"""Splits: the text for training (train), for choices such as when to stop (valid), and for the final score (test).
Tokenizers learn from train alone."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Literal

import numpy as np
from pydantic import Field, model_validator

from sublayer.data.source import Guessed, Source
from sublayer.data.text import Text
from sublayer.data.tokens import Split
from sublayer.nn.config import Config

Gather = Callable[[Source.Config], Text]
NAMES = ("train", "valid", "test")
SEARCHED_AT_ONCE = 1 << 16


class Splits:
    """Abstract: a kind gives the borders of each split."""

    class Config(Config, family="splits"):
        @property
        def sources(self) -> dict[str, Source.Config]:
            """Sources of its own, by the name of the field."""
            return {}

        def build(self) -> Splits:
            return self.owner(self)

        def whole(self) -> Splits.Config | None:
            """Splits that leave all of one text in train; None where splits are texts of their own."""
            return None

    def __init__(self, config: Splits.Config) -> None:
        self.config = config

    def divide(self, source: Source.Config, gather: Gather) -> dict[str, Split]:
        """Split name → its part; one that is not asked for is empty."""
        raise NotImplementedError


class Fractions(Splits):
    """Contiguous: the last `test` of the text's bytes, before it `valid`, before that train.

    enwik8 by the defaults, and text8, come out as everyone divides them: 90, 5 and 5 million.
    """

    class Config(Splits.Config, tag="fractions"):
        valid: float = Field(default=0.05, ge=0, lt=1)
        test: float = Field(default=0.05, ge=0, lt=1)
        at: Literal["character", "line"] = "character"
        """A border moves back to the start of the character, or of the line, that it would cut."""

        @model_validator(mode="after")
        def _leave_some(self) -> Fractions.Config:
            if self.valid + self.test >= 1:
                raise ValueError(f"valid={self.valid} and test={self.test} leave nothing to train on; use less than 1")
            return self

        def whole(self) -> Fractions.Config:
            return Fractions.Config(valid=0, test=0)

    config: Fractions.Config

    def divide(self, source: Source.Config, gather: Gather) -> dict[str, Split]:
        text = gather(source)
        total = len(text.bytes)
        test = total - round(total * self.config.test)
        valid = test - round(total * self.config.valid)
        borders = [0, *(self._move_back(text.bytes, border) for border in (valid, test)), total]
        return {name: Split(text, *ends) for name, ends in zip(NAMES, pairwise(borders), strict=True)}

    def _move_back(self, data: np.ndarray, border: int) -> int:
        if border == len(data):
            return border
        if self.config.at == "line":
            return _line_start(data, border)
        inside = min(3, border)  # bytes of one character; text that is not UTF-8 is cut as asked
        return next((border - n for n in range(inside + 1) if data[border - n] & 0xC0 != 0x80), border)


class Given(Splits):
    """The source is train; valid and test are sources of their own."""

    class Config(Splits.Config, tag="given"):
        valid: Guessed | None = None
        test: Guessed | None = None

        @property
        def sources(self) -> dict[str, Source.Config]:
            named = {"valid": self.valid, "test": self.test}
            return {name: source for name, source in named.items() if source is not None}

    config: Given.Config

    def divide(self, source: Source.Config, gather: Gather) -> dict[str, Split]:
        train = gather(source)
        parts = {"train": Split(train, 0, len(train.bytes))}
        for name, given in (("valid", self.config.valid), ("test", self.config.test)):
            text = train if given is None else gather(given)
            parts[name] = Split(text, 0, 0 if given is None else len(text.bytes))
        return parts


def _line_start(data: np.ndarray, border: int) -> int:
    for end in range(border, 0, -SEARCHED_AT_ONCE):
        start = max(0, end - SEARCHED_AT_ONCE)
        found = data[start:end].tobytes().rfind(b"\n")
        if found >= 0:
            return start + found + 1
    return 0
