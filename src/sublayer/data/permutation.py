"""Numbers 0 … size−1 in an order drawn by a key, any of them at once, without a list of all.

A Feistel network over a grid of rows × columns ≥ size (Black and Rogaway 2002): each round adds to one coordinate a
number drawn from the other, which can be undone, so that no two numbers meet. What lands beyond `size` goes through
again. The arithmetic is our own, so that an order is the same under every version of every library.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

ROUNDS = 4
"""Each moves both coordinates."""
WORD = (1 << 64) - 1


def mix(*numbers: int) -> int:
    """One number of 64 bits from several: what a seed and an epoch draw."""
    drawn = 0
    for number in numbers:
        drawn = scramble((drawn ^ number) & WORD)
    return drawn


def permute(indices: np.ndarray, size: int, key: int) -> np.ndarray:
    """The index that each index is sent to; for a fixed size and key, a bijection of 0 … size−1."""
    rows = math.isqrt(size - 1) + 1
    columns = -(-size // rows)
    found = _turn(indices.astype(np.uint64), rows, columns, key)
    while (outside := found >= size).any():
        found[outside] = _turn(found[outside], rows, columns, key)
    return found.astype(np.int64)


def _turn(number: np.ndarray, rows: int, columns: int, key: int) -> np.ndarray:
    row, column = number // columns, number % columns
    for turn in range(ROUNDS):
        row = (row + scramble(column ^ mix(key, turn, 0)) % rows) % rows
        column = (column + scramble(row ^ mix(key, turn, 1)) % columns) % columns
    return row * columns + column


def scramble(x: Any) -> Any:
    """splitmix64's finisher (Steele et al. 2014), of a number or an array: every bit depends on every bit."""
    x = (x + 0x9E3779B97F4A7C15) & WORD
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & WORD
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & WORD
    return x ^ (x >> 31)
