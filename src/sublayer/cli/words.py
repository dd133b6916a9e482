"""What verbs share: reading `key=value` words, and writing numbers and layouts for people."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.text import Text


def read_overrides(words: tuple[str, ...]) -> dict[str, Any]:
    """`dim=256 s.heads=2,2,2` → {"dim": 256, "s.heads": [2, 2, 2]}."""
    overrides: dict[str, Any] = {}
    for word in words:
        key, equals, text = word.partition("=")
        if not equals or not key:
            raise ValueError(f"{word!r} is not a change; write key=value, for example dim=256")
        overrides[key.strip()] = read_value(text)
    return overrides


def read_value(text: str) -> Any:
    """JSON where it is JSON, a list where there are commas, else the text itself."""
    try:
        return json.loads(text)
    except ValueError:
        pass
    if "," in text and text[0] not in "[{(":
        return [read_value(item.strip()) for item in text.split(",")]
    return text


def load_plugins(modules: list[str]) -> None:
    """Import plug-ins, with the current folder on the path as Python itself would have it."""
    from sublayer import load_plugin

    if modules and "" not in sys.path:
        sys.path.insert(0, "")
    for module in modules:
        load_plugin(module)


def short(number: int) -> str:
    """191,950,298 → 192 M."""
    for size, unit in ((10**12, "T"), (10**9, "G"), (10**6, "M"), (10**3, "k")):
        if number >= size:
            return f"{number / size:.3g} {unit}" if number < 1000 * size else f"{number // size:,} {unit}"
    return str(number)


COLOURS = {"s": "cyan", "f": "yellow", "c": "magenta"}


def coloured(layout: str) -> Text:
    """A layout with each letter in its part's colour."""
    from rich.text import Text

    text = Text()
    for mark in layout:
        plain = not mark.isalpha() or mark == "x"
        text.append(mark, style="dim" if plain else COLOURS.get(mark, "green"))
    return text
