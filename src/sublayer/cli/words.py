"""Shared by commands: reading `key=value` words, formatting numbers and layouts."""

from __future__ import annotations

import json
import sys
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.table import Table
    from rich.text import Text


def is_change(word: str) -> bool:
    """Whether a word is `key=value`, and not a model; the folder of a run may have a = in its name."""
    first = word.split(" ")[0]
    return "=" in first and not Path(first).exists()


def read_overrides(words: tuple[str, ...]) -> dict[str, Any]:
    """`dim=256 s.heads=2,2,2` → {"dim": 256, "s.heads": [2, 2, 2]}.

    A key is given once, but a rule may follow a layout: `layout=(sf)x6 layout=par(5)` → {"layout": "par(5,(sf)x6)"}.
    """
    from sublayer.keys import follow
    from sublayer.nn.layout import needs_base

    overrides: dict[str, Any] = {}
    for word in words:
        key, equals, text = word.partition("=")
        if not equals or not key:
            raise ValueError(f"{word!r} is not a change; write key=value, for example dim=256")
        key, value = key.strip(), read_value(text)
        if key in overrides and not needs_base(value):
            raise ValueError(
                f"{word}: {key} was given before, as {plain(overrides[key])}; give it once (only a rule for a layout, "
                "such as layout=par(5), may follow one)"
            )
        overrides[key] = follow(overrides.get(key), value)
    return overrides


def read_value(text: str) -> Any:
    """JSON where it is JSON, a list where there are commas, else the text itself."""
    try:
        return json.loads(text)
    except ValueError:
        pass
    except RecursionError:
        raise ValueError(f"{text[:40]}…: it is nested too deeply to be a value") from None
    items = _split(text)
    if len(items) > 1 and text[0] not in "[{(":
        return [read_value(item.strip()) for item in items]
    return text


def _split(text: str) -> list[str]:
    """Split at commas outside brackets: those of `par(5,12)` are its own."""
    pieces, depth = [""], 0
    for mark in text:
        depth += (mark in "([{") - (mark in ")]}")
        if mark == "," and depth <= 0:
            pieces.append("")
        else:
            pieces[-1] += mark
    return pieces


MOST_SEEDS = 10_000
"""More would be a slip of the keyboard: a training for each."""


def read_seeds(text: str) -> tuple[int, ...]:
    """A number of seeds, or the seeds themselves: `3` → (0, 1, 2), `3,5,8` → (3, 5, 8), `8,` → (8,)."""
    first, *more = text.split(",")
    words = [first, *(more[:-1] if more[-1:] == [""] else more)]
    if not all(word.strip().isdecimal() for word in words):
        raise ValueError(
            f"--seeds {text!r}: expected a number of seeds, or the seeds with commas; write --seeds 3 or --seeds 3,5,8"
        )
    if more:
        return tuple(map(_whole, words))
    if _whole(text) > MOST_SEEDS:
        raise ValueError(
            f"--seeds {text}: {MOST_SEEDS:,} seeds are the most; for the one seed {text} write --seeds {text},"
        )
    return tuple(range(_whole(text)))


def _whole(word: str) -> int:
    if len(word) > 30:  # Python itself refuses to read thousands of digits
        raise ValueError(f"--seeds: a seed of {len(word)} digits is too long; use one below 2**63")
    return int(word)


def print_json(data: Any) -> None:
    print(json.dumps(data, indent=2))


def load_plugins(modules: list[str]) -> None:
    """Import plug-ins; the current folder is on the path, as with `python -m`."""
    from sublayer import load_plugin

    if modules and "" not in sys.path:
        sys.path.insert(0, "")
    for module in modules:
        try:
            load_plugin(module)
        except ValueError:
            raise
        except Exception as error:  # a plug-in may raise anything while it is imported
            raise ValueError(
                f"plug-in {module!r} fails when imported: {_where(error)}{type(error).__name__}: {error}"
            ) from None


def _where(error: BaseException) -> str:
    """`my_parts.py:12: `, the line that raised an error."""
    if isinstance(error, SyntaxError):  # its message has the line
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
    """A value of a config as it is typed: strings without quotes, others as JSON, — for None."""
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


def two_lines(title: str) -> str:
    """A title of several words as a narrow column has it: `valid bits/byte` in two lines."""
    return title.replace(" ", "\n", 1)


def figures_table(words: tuple[str, ...], figures: tuple[str, ...] = (), after: tuple[str, ...] = ()) -> Table:
    """A table without borders: columns of words, which wrap, then of figures, then of words."""
    from rich.table import Table

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for title in words:
        table.add_column(title, overflow="fold", min_width=8)
    for title in figures:
        table.add_column(title, justify="right", no_wrap=True)
    for title in after:
        table.add_column(title, overflow="fold", min_width=16)
    return table
