"""Random walk: where a walker is who goes forward and turns in a small grid (Fan et al. 2020, sections 4.1.2, 7.1)."""

from __future__ import annotations

from typing import Annotated

import numpy as np
from pydantic import Field

from sublayer.data.tasks.base import Task
from sublayer.data.tasks.dice import Dice
from sublayer.data.tasks.examples import Block
from sublayer.nn.config import Count

FORWARD, LEFT, RIGHT, RESET = range(4)
HEADINGS = np.array([[-1, 0], [0, 1], [1, 0], [0, -1]])
"""North, east, south, west: rows and columns of one step."""


class RandomWalk(Task):
    """Actions are read, and after each the cell is asked for; a step that would leave the grid is ignored.

    An episode begins with a reset, to the cell in the middle, facing north; there nothing is asked, since the answer is
    always the same. Places are labels of their own, row · size + column.
    """

    class Config(Task.Config, tag="random-walk"):
        size: Annotated[int, Field(ge=2, le=100)] = 8
        """Cells along each side of the grid."""
        length: Count = 100
        """Actions between two resets."""

        def longest(self, part: str) -> int:
            return self.length + 1

    config: Config

    @property
    def symbols(self) -> tuple[str, ...]:
        return "forward", "left", "right", "reset"

    @property
    def classes(self) -> int:
        return self.config.size**2

    def make(self, dice: Dice, count: int, part: str) -> Block:
        action_EL = dice.roll(3, count, self.config.length).astype(np.int8)
        place_EL = walk(action_EL, self.config.size).astype(np.int16)
        before_E1 = np.full((count, 1), RESET, np.int8)
        nothing_E1 = np.full((count, 1), -1, np.int16)
        return np.hstack([before_E1, action_EL]), np.hstack([nothing_E1, place_EL])


def walk(action_EL: np.ndarray, size: int) -> np.ndarray:
    """Where each of E walkers is after each of its L actions."""
    turn_EL = (action_EL == RIGHT).astype(np.int64) - (action_EL == LEFT)
    step_EL2 = HEADINGS[turn_EL.cumsum(1) % 4] * (action_EL == FORWARD)[..., None]
    cell_E2 = np.full((len(action_EL), 2), size // 2)
    place_EL = np.empty(action_EL.shape, np.int64)
    for n in range(action_EL.shape[1]):
        cell_E2 = (cell_E2 + step_EL2[:, n]).clip(0, size - 1)  # one step ends outside along one axis, and only by one
        place_EL[:, n] = cell_E2 @ (size, 1)
    return place_EL
