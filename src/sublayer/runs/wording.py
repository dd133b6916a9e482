"""Wording of messages: counts with their nouns, commands that can be pasted."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from typing import Any


def plural(count: int, noun: str, many: str | None = None) -> str:
    """`1 thread`, `2 threads`; many: where an s does not make it."""
    return f"{count:,} {noun if count == 1 else many or f'{noun}s'}"


def change(key: str, value: Any) -> str:
    """`train.tokens=null`: as a command reads it again."""
    return f"{key}={value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)}"


def seeds(of: Sequence[int]) -> str:
    """As --seeds reads them: how many where they are the first ones, else which."""
    return str(len(of)) if list(of) == list(range(len(of))) else ",".join(map(str, of)) + "," * (len(of) == 1)


def command(verb: str, *words: object) -> str:
    """`sublayer resume 'runs/my book'`: quoted for a shell where it has to be."""
    return shlex.join(["sublayer", verb, *map(str, words)])
