"""`key=value` words of a space: choices, fixed values and rules."""

from __future__ import annotations

from typing import Any


def read_choices(words: tuple[str, ...]) -> tuple[dict[str, Any], list[str]]:
    """`dim=64..128/32 s.heads=4 f.inner>2*dim` → {"dim": "64..128/32", "s.heads": 4} and ["f.inner>2*dim"].

    A choice stays text until the space reads it: its commas are not those of a list. Rules for a layout stand on the
    layouts given before them: `layout=(sf)x2|(sf)x4 layout=par(5)` → {"layout": "par(5,(sf)x2)|par(5,(sf)x4)"}.
    """
    from sublayer.cli.words import plain, read_overrides
    from sublayer.nas.choice import chooses, split
    from sublayer.nn.layout import needs_base

    changes: dict[str, Any] = {}
    rules: list[str] = []
    for word in words:
        key, equals, value = word.partition("=")
        key = key.strip()
        if not equals and any(mark in word for mark in "<>"):
            rules.append(word)
            continue
        chosen = equals and key and not key.startswith(("train.", "data.")) and chooses(value)
        if key in changes and any(map(needs_base, split(value))):
            changes[key] = _follow(str(changes[key]), value)
        elif key in changes:
            raise ValueError(
                f"{word}: {key} was given before, as {plain(changes[key])}; give it once (only rules for a layout, "
                "such as layout=par(5), may follow one)"
            )
        else:
            changes |= {key: value} if chosen else read_overrides((word,))
    return changes, rules


def _follow(before: str, after: str) -> str:
    """Each rule put on each of the layouts before it; what is no rule stays as it is."""
    from sublayer.nas.choice import split
    from sublayer.nn.layout import put_on

    found = (put_on(one.strip(), base) for one in split(after) for base in split(before))
    return "|".join(dict.fromkeys(found))
