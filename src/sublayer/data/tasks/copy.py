"""Copy and reverse: digits, written down again (Kaiser & Sutskever 2015; Fan et al. 2021, section 4.1.1)."""

from __future__ import annotations

import numpy as np

from sublayer.data.tasks.base import Task
from sublayer.data.tasks.dice import Dice
from sublayer.data.tasks.examples import Block
from sublayer.nn.config import Count

DIGITS = 10
SEPARATOR = DIGITS


class Copy(Task):
    """The digits and a separator are read; the same digits are to be written, each from the right ones before it.

    Test is longer than train. An episode is a row by itself. That all answers are right means that greedy generation
    would write them; that most are says less, since generation goes on from its own mistakes.
    """

    alone = True

    class Config(Task.Config, tag="copy"):
        length: Count = 40
        """Digits, of train and valid."""
        test_length: Count = 400
        """Digits, of test."""

        def digits(self, part: str) -> int:
            return self.test_length if part == "test" else self.length

        def longest(self, part: str) -> int:
            return 2 * self.digits(part)

    config: Config

    @property
    def symbols(self) -> tuple[str, ...]:
        return (*map(str, range(DIGITS)), "|")

    def make(self, dice: Dice, count: int, part: str) -> Block:
        digit_EL = dice.roll(DIGITS, count, self.config.digits(part)).astype(np.int8)
        answer_EL = self.answer(digit_EL)
        separator_E1 = np.full((count, 1), SEPARATOR, np.int8)
        inputs_EL = np.hstack([digit_EL, separator_E1, answer_EL[:, :-1]])
        return inputs_EL, np.hstack([np.full_like(digit_EL, -1), answer_EL])

    def answer(self, digit_EL: np.ndarray) -> np.ndarray:
        return digit_EL


class Reverse(Copy):
    """As copy, but the last digit is to be written first."""

    class Config(Copy.Config, tag="reverse"):
        pass

    def answer(self, digit_EL: np.ndarray) -> np.ndarray:
        return digit_EL[:, ::-1]
