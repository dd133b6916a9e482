"""`key=value` words of a space: choices, fixed values and rules."""

from __future__ import annotations

from typing import Any


def read_choices(words: tuple[str, ...]) -> tuple[dict[str, Any], list[str]]:
    """`dim=64..128/32 s.heads=4 f.inner>2*dim` → {"dim": "64..128/32", "s.heads": 4} and ["f.inner>2*dim"].

    A choice stays text until the space reads it: its commas are not those of a list.
    """
    from sublayer.cli.words import read_overrides
    from sublayer.nas.choice import chooses

    changes: dict[str, Any] = {}
    rules: list[str] = []
    for word in words:
        key, equals, value = word.partition("=")
        if not equals and any(mark in word for mark in "<>"):
            rules.append(word)
        elif equals and key and not key.startswith(("train.", "data.")) and chooses(value):
            changes[key.strip()] = value
        else:
            changes |= read_overrides((word,))
    return changes, rules
