"""Algorithmic: what a program prints, while it is read (Fan et al. 2020, sections 4.1.2 and 7.4, Table 7)."""

from __future__ import annotations

from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from sublayer.data.tasks.base import Task
from sublayer.data.tasks.dice import Dice
from sublayer.data.tasks.examples import Block
from sublayer.data.tasks.program import LEAST, MOST, VARIABLES
from sublayer.data.tasks.statements import CONSTANTS, END, KIND, NAME, PRINT, PRINTED, WORDS, draw, execute, write


class Algorithmic(Task):
    """Statements are drawn one after another: an initialisation, an increment, a decrement, a print or a conditional,
    all alike probable, and again where one is not possible.

    A variable is initialised once, before it is used; values stay between 1 and 10. A conditional holds a statement
    that is no print and no conditional, and that would be possible if it were executed, whether it is or not. Only a
    print asks for an answer; the value is a label of its own. Where the paper leaves a rule open, it is that of the
    authors' own generator.
    """

    class Config(Task.Config, tag="algorithmic"):
        variables: Annotated[int, Field(ge=1, le=len(VARIABLES))] = 3
        """How many a program has."""
        length: Annotated[int, Field(ge=2)] = 100
        """Statements of a program."""
        conditions: Literal["order", "equality"] = "order"
        """order: `<` and `>` with a variable or a constant (Table 7); equality: `==` with a constant (section 4.1)."""

        asked: Literal["end", "name"] = "end"
        """Where a print asks: at the `;` that ends it, as in the authors' data, or at the name before it. At the name
        a value has only to be found; at the end it has to be brought there, too, which takes far longer to learn."""

        def longest(self, part: str) -> int:
            return WORDS * self.length + 1

    config: Config

    @property
    def symbols(self) -> tuple[str, ...]:
        constants = map(str, range(LEAST, MOST + 1))
        others = ("=", "++", "--", "print", "if", ":", ";", "END")
        return (*VARIABLES[: self.config.variables], *constants, *others, *self.comparisons)

    @property
    def comparisons(self) -> tuple[str, ...]:
        return ("<", ">") if self.config.conditions == "order" else ("==",)

    @property
    def classes(self) -> int:
        return CONSTANTS

    def make(self, dice: Dice, count: int, part: str) -> Block:
        inputs_ESW = np.empty((count, self.config.length, WORDS), np.int8)
        answers_ESW = np.full_like(inputs_ESW, -1)
        values_EK = np.zeros((count, self.config.variables), np.int64)
        asked = {"end": END, "name": PRINTED}[self.config.asked]
        number = {symbol: n for n, symbol in enumerate(self.symbols)}
        for n in range(self.config.length):
            row_E7 = draw(dice, values_EK, len(self.comparisons))
            inputs_ESW[:, n] = write(row_E7, number, self.comparisons)
            prints_E = row_E7[:, KIND] == PRINT
            answers_ESW[prints_E, n, asked] = values_EK[prints_E, row_E7[prints_E, NAME]] - LEAST
            execute(row_E7, values_EK, self.comparisons)
        end_E1 = np.full((count, 1), number["END"], np.int8)
        inputs_EL, answers_EL = inputs_ESW.reshape(count, -1), answers_ESW.reshape(count, -1)
        return np.hstack([inputs_EL, end_E1]), np.hstack([answers_EL, np.full_like(end_E1, -1)])
