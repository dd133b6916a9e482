"""A long text in parts, cut only where a tokenizer allows it."""

from __future__ import annotations

from collections.abc import Iterator
from re import Pattern

import numpy as np

PART = 1 << 24
TAIL = 1 << 12


def parts(text: np.ndarray, seam: Pattern[bytes], size: int = PART) -> Iterator[tuple[int, bytes]]:
    """(offset, bytes) of parts of about `size` bytes, each but the last cut after a match of `seam`."""
    start = 0
    while start < len(text):
        end = len(text) if len(text) - start <= size else _cut(text, start, start + size, seam)
        yield start, text[start:end].tobytes()
        start = end


def _cut(text: np.ndarray, start: int, end: int, seam: Pattern[bytes]) -> int:
    """After the last match shortly before `end`, else after the first one beyond; else the end of the text."""
    tail = max(start, end - TAIL)
    found = [match.end() for match in seam.finditer(text[tail:end].tobytes())]
    if found:
        return tail + found[-1]
    while end < len(text):
        tail, end = end - min(TAIL, end - start), min(len(text), 2 * end - start)
        match = seam.search(text[tail:end].tobytes())
        if match:
            return tail + match.end()
    return len(text)
