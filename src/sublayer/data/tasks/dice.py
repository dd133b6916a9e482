"""Dice: whole numbers drawn by a key, the same under every version of every library."""

from __future__ import annotations

import math

import numpy as np
from jaxtyping import Int64

from sublayer.data.permutation import mix, scramble


class Dice:
    """The n-th number is a hash of the key and n; whoever has the key draws the same."""

    def __init__(self, *key: int) -> None:
        self.key, self.thrown = mix(*key), 0

    def roll(self, below: int, *shape: int) -> Int64[np.ndarray, ...]:
        """Uniform numbers from 0 to below − 1."""
        (found,) = self.columns(math.prod(shape), below)
        return found.reshape(shape)

    def columns(self, count: int, *below: int) -> list[Int64[np.ndarray, " N"]]:
        """The same several times over, each with its own `below`; all from one throw of 64 bits, so of no more than 50
        in all."""
        number_N = np.arange(self.thrown, self.thrown + count, dtype=np.uint64)
        self.thrown += count
        rest_N, found = scramble(scramble(number_N) ^ self.key), []
        for size in below:
            rest_N, drawn_N = np.divmod(rest_N, np.uint64(size))
            found.append(drawn_N.astype(np.int64))
        return found
