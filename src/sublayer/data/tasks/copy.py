"""Copy and reverse: digits, written down again (Kaiser & Sutskever 2015; Fan et al. 2020, section 4.1.1)."""

from __future__ import annotations

from typing import Any

import numpy as np
from pydantic import model_validator

from sublayer.data.tasks.base import Task
from sublayer.data.tasks.dice import Dice
from sublayer.data.tasks.examples import Block
from sublayer.nn.config import Count

DIGITS = 10
SEPARATOR = DIGITS


class Copy(Task):
    """The digits and a separator are read; the same digits are to be written, each from the right ones before it.

    Test may be longer than train. An episode is a row by itself. That all answers are right means that greedy
    generation would write them; that most are shows less, since generation goes on from its own mistakes.

    Where all episodes of train are alike long, every answer to copy is as far behind its digit as any other, and
    looking that far back is all there is to learn. Lengths that vary (`shortest=1`) ask to find the digit.
    """

    alone = True

    class Config(Task.Config, tag="copy"):
        length: Count = 40
        """Digits, of train and valid."""
        shortest: Count | None = None
        """Of train and valid: lengths are drawn from this to `length`; None: all have `length`."""
        test_length: Count = 400
        """Digits, of test."""

        def digits(self, part: str) -> int:
            return self.test_length if part == "test" else self.length

        def fewest(self, part: str) -> int:
            return self.digits(part) if part == "test" else self.shortest or self.length

        def longest(self, part: str) -> int:
            return 2 * self.digits(part)

        @model_validator(mode="after")
        def _ordered(self) -> Any:
            if self.shortest is not None and self.shortest > self.length:
                raise ValueError(f"shortest={self.shortest} is more than length={self.length}; use at most as many")
            return self

    config: Config

    @property
    def symbols(self) -> tuple[str, ...]:
        return (*map(str, range(DIGITS)), "|")

    def make(self, dice: Dice, count: int, part: str) -> Block:
        digits, fewest = self.config.digits(part), self.config.fewest(part)
        digit_EL = dice.roll(DIGITS, count, digits).astype(np.int8)
        size_E1 = fewest + dice.roll(digits - fewest + 1, count, 1)
        place_L = np.arange(self.config.longest(part))
        n_EL = place_L - size_E1  # 0 at the separator, where the first digit of the answer is asked for

        def digit(which: np.ndarray) -> np.ndarray:
            return np.take_along_axis(digit_EL, np.broadcast_to(which.clip(0, digits - 1), n_EL.shape), axis=1)

        answer_EL = digit(self.source(n_EL, size_E1))
        choices = digit(place_L), SEPARATOR, np.roll(answer_EL, 1, axis=1)
        inputs_EL = np.select([n_EL < 0, n_EL == 0, n_EL < size_E1], choices, -1)
        asked_EL = (n_EL >= 0) & (n_EL < size_E1)
        return inputs_EL.astype(np.int8), np.where(asked_EL, answer_EL, -1).astype(np.int8)

    def source(self, n: np.ndarray, size: np.ndarray) -> np.ndarray:
        """Which of the digits the n-th of the answer is."""
        return n


class Reverse(Copy):
    """As copy, but the last digit is to be written first."""

    class Config(Copy.Config, tag="reverse"):
        pass

    def source(self, n: np.ndarray, size: np.ndarray) -> np.ndarray:
        return size - 1 - n
