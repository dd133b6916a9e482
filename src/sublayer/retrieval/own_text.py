"""Whether a text that is scored is in a store, and where: a token must not find itself."""

from __future__ import annotations

import numpy as np
from jaxtyping import Int

from sublayer.data import Tokenizer, Tokens
from sublayer.data.chunks import parts
from sublayer.retrieval.store import Store

SHOWS = 64
"""Tokens by which a stretch of text is found again."""
EDGE = 8
"""Tokens at the ends of a split that may differ: a word may be cut there, and its other part is not seen."""


def own_shift(store: Store, tokens: Tokens, tokenizer: Tokenizer) -> int | None:
    """What to add to the index of a token in the text to have the number of its entry; None: the texts do not overlap.

    Splits of one text are brought together by their bytes, then by their tokens.
    """
    part, facts = tokens.part, store.facts
    first, last = max(part.start, facts.start), min(part.stop, facts.stop)
    if part.text.key != facts.text or first >= last:
        return None
    if part.start == facts.start:
        return -1
    if tokenizer.verbatim:
        return part.start - facts.start - 1
    here, there = tokens.ids, store.tokens
    inside = part.start > facts.start
    found = [shift for shift in _shifts(here, there, inside=inside) if _agree(here, there, shift)]
    if not found:
        raise ValueError(
            f"{store.path}: was built from this text, but from a part that is cut elsewhere, so that tokens would find "
            "themselves; score the split that it was built from, or one that does not overlap it, by --split"
        )
    if len(found) == 1:
        return found[0]
    between = part.text.bytes[min(part.start, facts.start) : first]
    count = sum(len(tokenizer.encode(data)) for _, data in parts(between, tokenizer.seam))
    expected = count - 1 if inside else -1 - count
    return min(found, key=lambda shift: abs(shift - expected))


def _shifts(here: np.ndarray, there: np.ndarray, *, inside: bool) -> list[int]:
    """Shifts at which the beginning of one is in the other. inside: the text scored begins within the store."""
    few, many = (here, there) if inside else (there, here)
    found = [at - EDGE for at in _find(few[EDGE : max(EDGE, min(EDGE + SHOWS, len(few) - EDGE))], many)]
    return found if inside else [-shift for shift in found]


def _find(few: Int[np.ndarray, " F"], many: Int[np.ndarray, " N"]) -> list[int]:
    """Where `few`, or as much of it as there is room for, stands in `many`."""
    few = few[: len(many)]
    at = np.arange(len(many) - len(few) + 1) if len(few) else np.empty(0, np.int64)
    for n, token in enumerate(few):
        at = at[many[at + n] == token]
    return at.tolist()


def _agree(here: np.ndarray, there: np.ndarray, shift: int) -> bool:
    """Whether the tokens that both have are the same, but for the edges."""
    first, last = max(1, -shift) + EDGE, min(len(here), len(there) - shift) - EDGE
    return first >= last or np.array_equal(here[first:last], there[first + shift : last + shift])
