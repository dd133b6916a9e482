"""Characters: every one that was seen, in the order of code points, and <unk> for the rest."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cached_property
from typing import Any

import numpy as np

from sublayer.data.tokenizer.base import Ids, MinCount, Tokenizer, as_text

POINTS = 0x110000
UNKNOWN = 0xFFFD


class Char(Tokenizer):
    """<unk> is the last id and decodes as � (U+FFFD)."""

    # between two characters: before any byte that is not the inside of one
    seam = re.compile(rb"(?s).(?=[^\x80-\xbf])")

    class Config(Tokenizer.Config, tag="char"):
        min_count: MinCount = 1
        """Rarer characters are <unk>."""

    config: Config

    @staticmethod
    def learn(config: Config, texts: Iterable[str | bytes]) -> dict[str, Any]:
        count_C = np.zeros(POINTS, dtype=np.int64)
        for text in texts:
            seen_C = np.bincount(points(as_text(text)))
            count_C[: len(seen_C)] += seen_C
        seen = np.flatnonzero(count_C >= config.min_count)
        return {"characters": seen[seen != UNKNOWN].tolist()}

    def __init__(self, config: Config, learned: dict[str, Any]) -> None:
        super().__init__(config, learned)
        points = learned["characters"]
        if not all(type(point) is int and 0 <= point < POINTS for point in points):
            raise ValueError(f"not what the char tokenizer learns: characters are numbers from 0 to {POINTS - 1}")
        self.point_V = np.array([*points, UNKNOWN], dtype="<u4")
        self.vocab = len(self.point_V)
        self.unk = self.vocab - 1

    @cached_property
    def _ids(self) -> np.ndarray:
        """The id of every code point; the table is small, and a lookup is faster than a search."""
        ids = np.full(POINTS, self.unk, dtype=self.dtype)
        ids[self.point_V] = np.arange(self.vocab)
        return ids

    def encode(self, text: str | bytes) -> np.ndarray:
        return self._ids[points(as_text(text))]

    def decode(self, ids: Ids) -> str:
        return self.point_V[self.checked(ids)].tobytes().decode("utf-32-le", "surrogatepass")


def points(text: str) -> np.ndarray:
    """The code points of a text."""
    return np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype="<u4")
