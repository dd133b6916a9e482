"""Symbols: a vocabulary that is given, not learned; what a task is written in."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Annotated, Any

import numpy as np
from pydantic import Field

from sublayer.data.tokenizer.base import Ids, Tokenizer, as_text


class Symbols(Tokenizer):
    """Each symbol is a word between white space; others are refused."""

    learns_from_text = False
    seam = re.compile(rb"[ \n]")

    class Config(Tokenizer.Config, tag="symbols"):
        symbols: Annotated[tuple[str, ...], Field(min_length=1)]

    config: Config

    def __init__(self, config: Config, learned: Any = None) -> None:
        super().__init__(config, None)
        self.index = {symbol: number for number, symbol in enumerate(config.symbols)}
        self.vocab = len(config.symbols)

    def encode(self, text: str | bytes) -> np.ndarray:
        words = as_text(text).split()
        for word in words:
            if word not in self.index:
                raise ValueError(f"{word!r} is none of the symbols {' '.join(self.config.symbols)}; use those, apart")
        return np.fromiter(map(self.index.__getitem__, words), dtype=self.dtype, count=len(words))

    def decode(self, ids: Ids) -> str:
        return "".join(self.stream(self.checked(ids).tolist()))

    def stream(self, ids: Iterable[int]) -> Iterator[str]:
        space = ""
        for token in ids:
            yield space + self.config.symbols[token]
            space = " "
