"""HTML that cannot be broken by what is written in it: text is escaped where it enters, markup is a type of its own."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable
from html import escape
from typing import Any

VOID = ("meta", "br", "hr", "wbr")


class Markup(str):
    """Text that is HTML already."""

    __slots__ = ()


def tag(name: str, /, *inside: str | Iterable[str], **attributes: str | int | float | None) -> Markup:
    """`tag("td", 1 < 2, class_="number")`; an underscore in an attribute's name is a hyphen, None leaves it out."""
    written = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape(str(value))}"'
        for key, value in attributes.items()
        if value is not None
    )
    end = "" if name in VOID else f"</{name}>"
    return Markup(f"<{name}{written}>{join(*inside)}{end}")


def join(*inside: str | Iterable[str]) -> Markup:
    """Pieces one after the other, each escaped unless it is markup."""
    return Markup("".join(text(one) if isinstance(one, str) else join(*one) for one in inside))


def breakable(name: str) -> Markup:
    """A path or a candidate's name that may go on in a new line behind a slash and before a #."""
    pieces = re.split(r"(?<=/)|(?=#)", name)
    return join(piece for pair in zip(pieces, [tag("wbr")] * len(pieces), strict=True) for piece in pair)


def text(words: str) -> Markup:
    return words if isinstance(words, Markup) else Markup(escape(words))


def data(id_: str, value: Any) -> Markup:
    """JSON in the page, for its script; no character of it can end the element."""
    written = json.dumps(finite(value), separators=(",", ":"), allow_nan=False, sort_keys=True)
    for mark in "<>&\u2028\u2029":
        written = written.replace(mark, f"\\u{ord(mark):04x}")
    return Markup(f'<script type="application/json" id="{escape(id_)}">{written}</script>')


def finite(value: Any) -> Any:
    """The same with null where a number is none: JSON has no infinities."""
    if isinstance(value, dict):
        return {str(key): finite(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [finite(one) for one in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
