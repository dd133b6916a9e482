"""Statements: one for each of many programs at once, drawn, executed and written down.

A row has seven columns. NAME and VALUE are what OP is done to and with; of a conditional, OP is what it holds, and what
it asks is TESTED COMPARISON OTHER. Names and constants are ids of words: K variables, then the constants.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Bool, Int64

from sublayer.data.tasks.dice import Dice
from sublayer.data.tasks.program import COMPARISONS, LEAST, MOST

ASSIGN, UP, DOWN, PRINT, IF = range(5)
SIMPLE, ALL = 3, 5
"""The first kinds are those that a conditional may hold."""
KIND, OP, NAME, VALUE, TESTED, COMPARISON, OTHER = range(7)
WORDS = 9
"""Of the longest statement, `if x < y : z = 3 ;`; shorter ones leave columns empty."""
PRINTED, END = 6, 8
"""Where a statement has the name that it prints, and its `;`."""
CONSTANTS = MOST - LEAST + 1
Column = Int64[np.ndarray, " E"]
Rows = Int64[np.ndarray, "E 7"]
Values = Int64[np.ndarray, "E K"]
"""Of each variable; 0 before it has one."""


def draw(dice: Dice, values_EK: Values, comparisons: int, kinds: int = ALL) -> Rows:
    """A statement for each program, drawn again where it is not possible."""
    row_E7 = np.empty((len(values_EK), 7), np.int64)
    left_E = np.arange(len(values_EK))
    while left_E.size:
        tried_E7, possible_E = attempt(dice, values_EK[left_E], comparisons, kinds)
        row_E7[left_E[possible_E]] = tried_E7[possible_E]
        left_E = left_E[~possible_E]
    holds_E = np.flatnonzero(row_E7[:, KIND] == IF)
    if holds_E.size:
        row_E7[holds_E, OP : VALUE + 1] = draw(dice, values_EK[holds_E], comparisons, SIMPLE)[:, OP : VALUE + 1]
    return row_E7


def attempt(dice: Dice, values_EK: Values, comparisons: int, kinds: int) -> tuple[Rows, Bool[np.ndarray, " E"]]:
    """Statements, and which of them are possible."""
    (E, K), known_EK = values_EK.shape, values_EK > 0
    kind_E, value_E, other_E, sign_E, way_E = dice.columns(E, kinds, CONSTANTS, CONSTANTS, comparisons, 2)
    first_E, second_E = dice.columns(E, 2**25, 2**25)
    new_E = kind_E == ASSIGN
    name_E = pick(first_E, known_EK ^ new_E[:, None])
    before_E = values_EK[np.arange(E), name_E]
    possible_E = (before_E == 0) == new_E
    possible_E &= ~((kind_E == UP) & (before_E == MOST) | (kind_E == DOWN) & (before_E == LEAST))
    other_E += K
    if comparisons > 1:  # with a variable, every other time
        between_E = (kind_E == IF) & (way_E == 0)
        known_EK[np.arange(E), name_E] = False
        possible_E &= ~between_E | known_EK.any(1)
        other_E = np.where(between_E, pick(second_E, known_EK), other_E)
    return np.stack([kind_E, kind_E, name_E, K + value_E, name_E, sign_E, other_E], 1), possible_E


def pick(chance_E: Column, allowed_EK: Bool[np.ndarray, "E K"]) -> Column:
    """One of the allowed in each row, drawn uniformly; any, if none is allowed."""
    rank_EK = allowed_EK.cumsum(1)
    return (rank_EK > (chance_E % np.maximum(rank_EK[:, -1], 1))[:, None]).argmax(1)


def execute(row_E7: Rows, values_EK: Values, comparisons: tuple[str, ...]) -> None:
    """Change the values by executing the statements."""
    E = np.arange(len(row_E7))
    constants_EC = np.broadcast_to(np.arange(LEAST, MOST + 1), (len(E), CONSTANTS))
    value_EW = np.hstack([values_EK, constants_EC])
    here_E, there_E = value_EW[E, row_E7[:, TESTED]], value_EW[E, row_E7[:, OTHER]]
    holds_CE = np.stack([COMPARISONS[sign](here_E, there_E) for sign in comparisons])
    done_E = (row_E7[:, KIND] < PRINT) | (row_E7[:, KIND] == IF) & holds_CE[row_E7[:, COMPARISON], E]
    op_E, name_E = row_E7[:, OP], row_E7[:, NAME]
    before_E = values_EK[E, name_E]
    after_E = np.where(op_E == ASSIGN, value_EW[E, row_E7[:, VALUE]], before_E + (op_E == UP) - (op_E == DOWN))
    values_EK[E, name_E] = np.where(done_E, after_E, before_E)


def write(row_E7: Rows, word: dict[str, int], comparisons: tuple[str, ...]) -> Int64[np.ndarray, "E W"]:
    """The words of each statement, −1 where there is none."""
    word_EW = np.full((len(row_E7), WORDS), -1)
    asks_E, prints_E = row_E7[:, KIND] == IF, row_E7[:, KIND] == PRINT
    word_EW[asks_E, 0], word_EW[asks_E, 4] = word["if"], word[":"]
    word_EW[asks_E, 1], word_EW[asks_E, 3] = row_E7[asks_E, TESTED], row_E7[asks_E, OTHER]
    word_EW[asks_E, 2] = np.array([word[sign] for sign in comparisons])[row_E7[asks_E, COMPARISON]]
    sign_O = np.array([word["="], word["++"], word["--"]])
    word_EW[:, 5] = np.where(prints_E, word["print"], row_E7[:, NAME])
    word_EW[:, PRINTED] = np.where(prints_E, row_E7[:, NAME], sign_O[row_E7[:, OP] % SIMPLE])
    word_EW[:, 7] = np.where(row_E7[:, OP] == ASSIGN, row_E7[:, VALUE], -1)
    word_EW[:, END] = word[";"]
    return word_EW
