"""Score: how well a text was predicted, in each unit that is in use."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

UNITS = ("loss", "perplexity", "word_perplexity", "bits_per_token", "bits_per_byte", "bits_per_character")


@dataclass(frozen=True)
class Score:
    """Nats, and the units they were summed over. A unit whose count is not known, as of ids without text, is None."""

    nats: float
    """−Σ ln p(target | context), summed in float64."""
    tokens: int
    """Targets that were scored: all but the first token of a text, which has nothing before it."""
    bytes: int | None = None
    """Of the text that those targets stand for."""
    characters: int | None = None
    words: int | None = None
    """Runs between white space. Ends of lines are no words, though a word tokenizer has a token for them."""

    @property
    def loss(self) -> float:
        """Nats a token."""
        return self.nats / self.tokens

    @property
    def perplexity(self) -> float:
        """Of a token: what papers report where the tokens are words, ends of lines included."""
        return _exp(self.loss)

    @property
    def word_perplexity(self) -> float | None:
        """Of a word, whatever the tokens are: comparable between tokenizers."""
        nats_a_word = _share(self.nats, self.words)
        return None if nats_a_word is None else _exp(nats_a_word)

    @property
    def bits_per_token(self) -> float:
        return self.loss / math.log(2)

    @property
    def bits_per_byte(self) -> float | None:
        """Comparable between tokenizers."""
        return _share(self.nats / math.log(2), self.bytes)

    @property
    def bits_per_character(self) -> float | None:
        return _share(self.nats / math.log(2), self.characters)

    def dump(self) -> dict[str, Any]:
        """Plain JSON: counts and units; what is not known, or not a finite number, is null."""
        figures = {**asdict(self), **{unit: getattr(self, unit) for unit in UNITS}}
        return {name: None if value is None or not math.isfinite(value) else value for name, value in figures.items()}


def _share(amount: float, count: int | None) -> float | None:
    return amount / count if count else None


def _exp(nats: float) -> float:
    try:
        return math.exp(nats)
    except OverflowError:
        return math.inf
