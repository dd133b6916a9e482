"""How much text some targets stand for: bytes, characters, words.

The first token of a text is never a target, and a limit leaves out an end, so the counts are of a stretch:

| given | counts |
| --- | --- |
| tokens and their tokenizer | exact: the stretch is found in the text itself |
| tokens alone | the whole text's, in proportion to how many of its tokens were scored |
| ids and their tokenizer | of the text that the ids decode to |
| ids alone | not known |
"""

from __future__ import annotations

from bisect import bisect_right

import numpy as np
from jaxtyping import Integer

from sublayer.data import Tokenizer, Tokens
from sublayer.data.chunks import parts
from sublayer.data.tokenizer.base import BytesTokenizer
from sublayer.data.tokens import Split

Ids = Integer[np.ndarray, " N"]
Counts = tuple[int | None, int | None, int | None]
"""Bytes, characters, words."""

DECODED_AT_ONCE = 1 << 20
ENCODED_AT_ONCE = 1 << 16


def count(tokens: Tokens | Ids, targets: int, tokenizer: Tokenizer | None = None) -> Counts:
    """Of the first `targets` tokens after the very first one."""
    if isinstance(tokens, Tokens):
        return _of_share(tokens, targets) if tokenizer is None else _of_stretch(tokens, targets, tokenizer)
    if tokenizer is None:
        return None, None, None
    ids_N = tokens[1 : 1 + targets]
    data = tokenizer.bytes_of(ids_N) if isinstance(tokenizer, BytesTokenizer) else tokenizer.decode(ids_N).encode()
    characters = np.count_nonzero(_begins(data))
    return len(data), int(characters), len(data.split())


def _of_share(tokens: Tokens, targets: int) -> Counts:
    bytes_, characters, words = (round(n * targets / len(tokens)) for n in _totals(tokens))
    return bytes_, characters, words


def _of_stretch(tokens: Tokens, targets: int, tokenizer: Tokenizer) -> Counts:
    part = tokens.part
    start = end_of(tokens, 1, tokenizer)
    stop = tokens.bytes if targets == len(tokens) - 1 else end_of(tokens, 1 + targets, tokenizer)
    stretch = Split(part.text, part.start + start, part.start + stop)
    return _totals(Tokens(tokens.name, tokens.ids[1 : 1 + targets], stretch))


def _totals(tokens: Tokens) -> tuple[int, int, int]:
    return tokens.bytes, tokens.characters, tokens.words


def end_of(tokens: Tokens, count: int, tokenizer: Tokenizer) -> int:
    """Where in its text the first `count` tokens end."""
    if tokenizer.verbatim:
        return count
    if isinstance(tokenizer, BytesTokenizer):
        starts = range(0, count, DECODED_AT_ONCE)
        return sum(len(tokenizer.bytes_of(tokens.ids[n : min(n + DECODED_AT_ONCE, count)])) for n in starts)
    return _longest(tokens.part.bytes, count, tokenizer)


def _longest(text: np.ndarray, count: int, tokenizer: Tokenizer) -> int:
    """Bytes of the longest beginning of a text that has `count` tokens: white space belongs to the word before it."""
    before = 0
    for start, data in parts(text, tokenizer.seam, ENCODED_AT_ONCE):
        here = len(tokenizer.encode(data))
        if before + here > count:
            # A text is cut between characters only.
            ends = [*np.flatnonzero(_begins(data)).tolist(), len(data)]
            known = bisect_right(ends, count - before, key=lambda end: len(tokenizer.encode(data[:end])))
            return start + ends[known - 1]
        before += here
    return len(text)


def _begins(data: bytes) -> np.ndarray:
    """Which bytes begin a character."""
    return (np.frombuffer(data, np.uint8) & 0xC0) != 0x80
