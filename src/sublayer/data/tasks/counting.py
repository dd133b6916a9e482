"""Counting: as many B's as there were A's (Fan et al. 2020, section 4.1.1)."""

from __future__ import annotations

import numpy as np

from sublayer.data.tasks.base import Task
from sublayer.data.tasks.dice import Dice
from sublayer.data.tasks.examples import Block
from sublayer.nn.config import Count

A, B, SEPARATOR, END = range(4)


class Counting(Task):
    """A's in a row and a separator are read; as many B's and an end are to be written, each after right ones.

    How many there are is drawn anew for each episode, which is a row by itself.
    """

    alone = True

    class Config(Task.Config, tag="counting"):
        length: Count = 50
        """A's at most; at least one."""

        def longest(self, part: str) -> int:
            return 2 * self.length + 1

    config: Config

    @property
    def symbols(self) -> tuple[str, ...]:
        return "A", "B", "|", "."

    def make(self, dice: Dice, count: int, part: str) -> Block:
        count_E1 = 1 + dice.roll(self.config.length, count, 1)
        place_L = np.arange(self.config.longest(part))
        symbol_EL = np.where(place_L < count_E1, A, np.where(place_L == count_E1, SEPARATOR, B))
        inputs_EL = np.where(place_L <= 2 * count_E1, symbol_EL, -1)
        answers_EL = np.where(place_L == 2 * count_E1, END, np.where(place_L >= count_E1, B, -1))
        return inputs_EL.astype(np.int8), answers_EL.astype(np.int8)
