"""Recall: keys and values are read, and later a key asks for its value (Graves et al. 2014; Arora et al. 2024)."""

from __future__ import annotations

import string
from typing import Annotated, Any

import numpy as np
from pydantic import Field, model_validator

from sublayer.data.tasks.base import Task
from sublayer.data.tasks.dice import Dice
from sublayer.data.tasks.examples import Block
from sublayer.nn.config import Count

VALUES, KEYS = string.digits, string.ascii_letters
FILLER = len(VALUES) + len(KEYS)


class Recall(Task):
    """Each key stands once with its value, then come fillers, then some of the keys again, each asked for its value.

    An episode is a row by itself. How far back a value stands is drawn with it, so no fixed distance finds it: what
    remembers a bounded number of tokens, or sums over them, shows here what it loses.
    """

    alone = True

    class Config(Task.Config, tag="recall"):
        length: Count = 16
        """Pairs of a key and its value; at most as many as there are keys."""
        gap: Annotated[int, Field(ge=0)] = 0
        """Fillers between the pairs and the questions."""
        asked: Count = 8
        """Questions; at most as many as pairs."""

        def longest(self, part: str) -> int:
            return 2 * self.length + self.gap + 2 * min(self.asked, self.length)

        @model_validator(mode="after")
        def _enough_keys(self) -> Any:
            if self.length > len(KEYS):
                raise ValueError(f"length={self.length}: there are {len(KEYS)} keys; use at most as many pairs")
            return self

    config: Config

    @property
    def symbols(self) -> tuple[str, ...]:
        return (*VALUES, *KEYS, ".")

    def make(self, dice: Dice, count: int, part: str) -> Block:
        pairs, asked = self.config.length, min(self.config.asked, self.config.length)
        key_EP = len(VALUES) + dice.roll(2**40, count, len(KEYS)).argsort(axis=1, kind="stable")[:, :pairs]
        value_EP = dice.roll(len(VALUES), count, pairs)
        which_EA = dice.roll(2**40, count, pairs).argsort(axis=1, kind="stable")[:, :asked]
        filler_EG = np.full((count, self.config.gap), FILLER)

        def told(which: np.ndarray) -> np.ndarray:
            """Keys, each before its value."""
            both = (np.take_along_axis(x, which, axis=1) for x in (key_EP, value_EP))
            return np.stack(list(both), axis=-1).reshape(count, -1)

        all_EP = np.broadcast_to(np.arange(pairs), (count, pairs))
        inputs_EL = np.concatenate([told(all_EP), filler_EG, told(which_EA)], axis=1)
        answers_EL = np.full_like(inputs_EL, -1)
        answers_EL[:, -2 * asked :: 2] = inputs_EL[:, 1 - 2 * asked :: 2]
        return inputs_EL.astype(np.int8), answers_EL.astype(np.int8)
