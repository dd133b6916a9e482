"""Programs: what they are written in, and what they print.

    x = 3 ; y = 8 ; if x < y : x ++ ; print x ; END

This interpreter is the definition; the generator, which must know every value as it goes, is held to it.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Sequence
from typing import Any

VARIABLES = "xyzprabcdefghijklmnoqstuvw"
LEAST, MOST = 1, 10
"""Values of variables, and constants."""
COMPARISONS: dict[str, Callable[[Any, Any], Any]] = {"<": operator.lt, ">": operator.gt, "==": operator.eq}


def printed(words: Sequence[str]) -> list[int | None]:
    """What is printed at each word: a value at the `;` that ends a print, None elsewhere."""
    values: dict[str, int] = {}
    found: list[int | None] = []
    for statement in statements(words):
        found += [None] * len(statement) + [execute(statement, values)]
    return found


def statements(words: Sequence[str]) -> Iterator[Sequence[str]]:
    """Without the word that ends each; of END, nothing is left."""
    start = 0
    for end, word in enumerate(words):
        if word in (";", "END"):
            yield words[start:end]
            start = end + 1


def execute(statement: Sequence[str], values: dict[str, int]) -> int | None:
    """Execute a statement: change the values, and return what it prints."""
    match list(statement):
        case []:
            values.clear()
        case ["print", name]:
            return values[name]
        case ["if", name, comparison, other, ":", *nested]:
            if COMPARISONS[comparison](values[name], values[other] if other in values else int(other)):
                execute(nested, values)
        case [name, "=", value]:
            values[name] = int(value)
        case [name, "++"]:
            values[name] += 1
        case [name, "--"]:
            values[name] -= 1
    return None
