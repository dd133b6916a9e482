"""Wording: what is told to people, by every room from here on: counts with their nouns, commands that can be pasted."""

from __future__ import annotations

import shlex


def plural(count: int, noun: str, many: str | None = None) -> str:
    """`1 thread`, `2 threads`; many: where an s does not make it."""
    return f"{count:,} {noun if count == 1 else many or f'{noun}s'}"


def command(verb: str, *words: object) -> str:
    """`sublayer resume 'runs/my book'`: quoted for a shell where it has to be."""
    return shlex.join(["sublayer", verb, *map(str, words)])
