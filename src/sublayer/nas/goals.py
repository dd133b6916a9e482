"""What is wanted of candidates: objectives to minimise or maximise, and limits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sublayer.nas import proxies, units
from sublayer.nas.records import SearchGoal

MEASURED = {"latency": "s", "memory": "B"}
"""Figures that are measured on a device, and their units."""
COUNTED = ("params", "decoder_params", "flops")
"""Figures that are counted from a config."""
MAXIMIZED = ("decoder_params",)
"""Counted figures that are maximised by default."""


def source(figure: str) -> str:
    """Where a candidate's figure comes from: counted from its config, predicted for a device, or scored by a proxy."""
    return "counted" if figure in COUNTED else "predicted" if figure in MEASURED else "scored"


def read_goal(text: str) -> SearchGoal:
    """`latency`, `decoder_params`; `synflow:max` where the direction differs from the figure's default."""
    name, _, direction = text.strip().partition(":")
    directions: dict[str, Any] = {"min": "minimize", "max": "maximize", "": None}
    if direction not in directions or not name:
        raise ValueError(f"objective {text!r}: expected a figure, such as latency, with :min or :max if need be")
    default = "maximize" if _maximized(name) else "minimize"
    return SearchGoal(name=name, direction=directions[direction] or default, unit=MEASURED.get(name, ""))


def _maximized(name: str) -> bool:
    """The default direction of a figure; a proxy declares its own."""
    if name in (*COUNTED, *MEASURED):
        return name in MAXIMIZED
    return name in proxies.names() and proxies.find(name).higher


def read_goals(given: str | Sequence[str | SearchGoal]) -> tuple[SearchGoal, ...]:
    """Two or three objectives: `decoder_params,latency,memory`."""
    items = given.split(",") if isinstance(given, str) else given
    goals = tuple(read_goal(item) if isinstance(item, str) else item for item in items)
    names = [goal.name for goal in goals]
    if len(names) not in (2, 3) or len(set(names)) != len(names):
        raise ValueError(
            f"objectives={','.join(names)}: expected two or three different figures, such as decoder_params,latency"
        )
    return goals


def read_limits(given: Mapping[str, str | float | None]) -> dict[str, float]:
    """`{"latency": "5ms", "params": 1e6}` → seconds, bytes and counts; None means unlimited."""
    return {name: units.read(name, most, f"{name}_max") for name, most in given.items() if most is not None}
