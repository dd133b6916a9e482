"""A model in one line: `dim=96 layout=(sf)x2 s.heads=4 f.inner=128,256`, the keys by which models are told apart."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

FIRST = ("dim", "layout", "s.heads", "f.inner", "position")
"""Keys that every line has, where the model has them."""
UNSAID = ("stack", "alphabet", "vary")
"""Steps of a path that nobody types: `stack.vary.f.inner` is `f.inner`."""
LEAST, MOST = 60, 160
"""Characters of a line that a cell shows."""

Config = dict[str, Any] | None


def specs(configs: Sequence[Config]) -> list[str]:
    """A line for each config: the first keys, then every key in which some of them differ."""
    leaves = [dict(_leaves(config or {})) for config in configs]
    keys = list(dict.fromkeys([*FIRST, *(key for one in leaves for key in one)]))
    known = [one for one in leaves if one]
    told = [key for key in keys if key in FIRST or len({one.get(key) for one in known}) > 1]
    return [" ".join(f"{key}={one[key]}" for key in told if key in one) for one in leaves]


def cut(line: str) -> str:
    """A line short enough for a cell; the whole of it stands in its tooltip."""
    if len(line) <= MOST:
        return line
    end = line.rfind(" ", LEAST, MOST)
    return line[: end if end > 0 else MOST] + " …"


def _leaves(data: dict[str, Any], path: tuple[str, ...] = ()) -> Iterator[tuple[str, str]]:
    """Keys as they are typed, with their values; what varies comes last, so that it replaces the common value."""
    for name, value in sorted(data.items(), key=lambda item: item[0] == "vary"):
        here = path if name in UNSAID or name == "kind" else (*path, *name.split("."))
        if isinstance(value, dict):
            yield from _leaves(value, here)
        elif value is not None and here:
            yield ".".join(here), _typed(value)


def _typed(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return ",".join(map(_typed, value)) if isinstance(value, list | tuple) else str(value)
