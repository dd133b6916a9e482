"""Words, as WikiText counts them: runs between white space, and <eos> for every line end.

The most frequent come first, as adaptive softmax and adaptive inputs want it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
from pydantic import Field

from sublayer.data.tokenizer.base import Ids, MinCount, Tokenizer, as_text

EOS, UNK = "<eos>", "<unk>"


class Word(Tokenizer):
    """Runs of white space are one space, so that a text comes back with its words and lines, not its spacing.

    A text that holds the words <eos> or <unk> (WikiText has <unk>) means those tokens.
    """

    seam = re.compile(rb"[ \n]")

    class Config(Tokenizer.Config, tag="word"):
        min_count: MinCount = 1
        """Rarer words are <unk>."""
        max_size: int | None = Field(default=None, ge=2)
        """Largest number of words, <eos> and <unk> included; None: no limit."""

    config: Config

    @staticmethod
    def learn(config: Config, texts: Iterable[str | bytes]) -> dict[str, Any]:
        count: Counter[str] = Counter({EOS: 0, UNK: 0})
        for text in texts:
            count.update(split(as_text(text)))
        return {"words": chosen(count, config.min_count, config.max_size)}

    def __init__(self, config: Config, learned: dict[str, Any]) -> None:
        super().__init__(config, learned)
        self.words: list[str] = learned["words"]
        if not isinstance(self.words, list) or not all(isinstance(word, str) for word in self.words):
            raise ValueError("not what the word tokenizer learns: words are a list of texts")
        self.index = _Index(self.words)
        self.vocab = len(self.words)
        self.unk, self.eos = self.index[UNK], self.index[EOS]

    def encode(self, text: str | bytes) -> np.ndarray:
        found = split(as_text(text))
        return np.fromiter(map(self.index.__getitem__, found), dtype=self.dtype, count=len(found))

    def decode(self, ids: Ids) -> str:
        return "".join(self.stream(self.checked(ids).tolist()))

    def stream(self, ids: Iterable[int]) -> Iterator[str]:
        space = ""
        for token in ids:
            if token == self.eos:
                yield "\n"
            else:
                yield space + self.words[token]
            space = "" if token == self.eos else " "


class _Index(dict[str, int]):
    """Word → id, <unk>'s for any other."""

    def __init__(self, words: list[str]) -> None:
        super().__init__(zip(words, range(len(words)), strict=True))
        self.unk = self[UNK]

    def __missing__(self, word: str) -> int:
        return self.unk


def split(text: str) -> list[str]:
    return text.replace("\n", f" {EOS} ").split()


def chosen(count: Counter[str], min_count: int, max_size: int | None) -> list[str]:
    """The vocabulary, the most frequent first (of equals, the one seen first); <unk> counts those left out."""
    words = [word for word, times in count.most_common() if word not in (EOS, UNK) and times >= min_count]
    words = words if max_size is None else words[: max_size - 2]
    unknown = count.total() - count[EOS] - sum(count[word] for word in words)
    times = {EOS: count[EOS], UNK: unknown} | {word: count[word] for word in words}
    return sorted(times, key=lambda word: -times[word])
