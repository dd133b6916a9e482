"""What verbs share: reading `key=value` words, and writing numbers and layouts for people."""

from __future__ import annotations

import json
import sys
import traceback
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.table import Table
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


def read_seeds(said: str) -> tuple[int, ...]:
    """How many, or which: `3` → (0, 1, 2), `3,5,8` as they are, `8,` → (8,)."""
    first, *more = said.split(",")
    words = [first, *(more[:-1] if more[-1:] == [""] else more)]
    if not all(word.strip().isdecimal() for word in words):
        raise ValueError(f"--seeds {said!r}: expected how many, or which with commas; write --seeds 3 or --seeds 3,5,8")
    return tuple(map(int, words)) if more else tuple(range(int(said)))


def print_json(told: Any) -> None:
    """For other programs."""
    print(json.dumps(told, indent=2))


def load_plugins(modules: list[str]) -> None:
    """Import plug-ins, with the current folder on the path as Python itself would have it."""
    from sublayer import load_plugin

    if modules and "" not in sys.path:
        sys.path.insert(0, "")
    for module in modules:
        try:
            load_plugin(module)
        except ValueError:
            raise
        except Exception as error:  # whatever a stranger's module does while it is imported
            raise ValueError(
                f"plug-in {module!r} fails when imported: {_place(error)}{type(error).__name__}: {error}"
            ) from None


def _place(error: BaseException) -> str:
    """`my_parts.py:12: `, where an error arose."""
    if isinstance(error, SyntaxError):  # says so itself
        return ""
    frames = traceback.extract_tb(error.__traceback__)
    return f"{frames[-1].filename}:{frames[-1].lineno}: " if frames else ""


def short(number: int) -> str:
    """191,950,298 → 192 M."""
    for size, unit in ((10**12, "T"), (10**9, "G"), (10**6, "M"), (10**3, "k")):
        if number >= 1000 * size:
            return f"{number // size:,} {unit}"
        if number >= 0.9995 * size:  # 999,500 and more round to 1.00 M
            return f"{number / size:#.3g}".rstrip(".") + f" {unit}"
    return str(number)


def plain(value: Any) -> str:
    """A value of a config as one would write it: words bare, the rest as JSON; — where there is none."""
    if value is None:
        return "—"
    return value if isinstance(value, str) else json.dumps(value)


COLOURS = {"s": "cyan", "f": "yellow", "c": "magenta"}


def coloured(layout: str) -> Text:
    """A layout with each letter in its part's colour."""
    from rich.text import Text

    text = Text()
    for mark in layout:
        plain = not mark.isalpha() or mark == "x"
        text.append(mark, style="dim" if plain else COLOURS.get(mark, "green"))
    return text


def figures_table(words: tuple[str, ...], figures: tuple[str, ...] = (), after: tuple[str, ...] = ()) -> Table:
    """Columns of words, which may be folded, then of figures, then of words about them."""
    from rich.table import Table

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for title in words:
        table.add_column(title, overflow="fold", min_width=8)
    for title in figures:
        table.add_column(title, justify="right", no_wrap=True)
    for title in after:
        table.add_column(title, overflow="fold", min_width=16)
    return table
