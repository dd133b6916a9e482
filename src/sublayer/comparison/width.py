"""Equal parameters: the width at which a model has as many as asked, all else in proportion."""

from __future__ import annotations

import math
from typing import Any

from sublayer.nn.config import ConfigError
from sublayer.nn.model import Model

STEP = 4
"""Widths are multiples of it, and of twice the number of heads, since rotations need heads of an even size."""
WIDEST = 2**16
FAR = 0.10
"""How far from the target the nearest width may be, as a share."""


def of_params(config: Model.Config, target: int) -> Model.Config:
    """The model as wide as makes its parameters nearest to the target; ConfigError if none is near."""
    step = math.lcm(STEP, *_heads(config))
    low, high = 0, WIDEST // step
    while high - low > 1:  # at `low` steps the model is smaller than the target, at `high` it is not
        middle = (low + high) // 2
        low, high = (middle, high) if _count(config, middle * step) < target else (low, middle)
    widths = [n * step for n in (low, high) if n]
    nearest = min(widths, key=lambda dim: abs(_count(config, dim) - target))
    made = widened(config, nearest)
    off = apart(made, target)
    if abs(off) > FAR:
        raise ConfigError(
            f"no width gives {target:,} parameters: the nearest, dim={nearest}, has {made.cost().params:,} "
            f"({100 * off:+.0f} %); widths are multiples of {step} here, so use fewer heads, or another target"
        )
    return made


def apart(config: Model.Config, target: int) -> float:
    """How many more parameters than the target, as a share of it."""
    return config.cost().params / target - 1


def widened(config: Model.Config, dim: int) -> Model.Config:
    """Another width; what was given beside it as a number of its own, in proportion."""
    data = config.dump()
    for stack in config.stacks:
        table = data[stack or "stack"]
        for part in table["alphabet"].values():
            _scale(part, dim / config.dim)
        for key, values in table["vary"].items():
            for name in _SIZES:
                if key.endswith(f".{name}"):
                    table["vary"][key] = [_scaled(value, dim / config.dim, _SIZES[name]) for value in values]
    return type(config).parse({**data, "dim": dim})


_SIZES = {"inner": STEP, "head_dim": 2}
"""Sizes that go with the width, and what they are multiples of."""


def _scale(part: dict[str, Any], by: float) -> None:
    for name, step in _SIZES.items():
        if part.get(name):
            part[name] = _scaled(part[name], by, step)


def _scaled(size: int | None, by: float, step: int) -> int | None:
    return None if size is None else max(1, round(size * by / step)) * step


def _count(config: Model.Config, dim: int) -> int:
    return widened(config, dim).cost().params


def _heads(config: Model.Config) -> set[int]:
    """Twice the heads of parts whose heads share the width out."""
    parts = [part for stack in config.stacks.values() for part in stack.parts]
    return {2 * part.heads for part in parts if hasattr(part, "heads") and getattr(part, "head_dim", None) is None}  # pyright: ignore[reportAttributeAccessIssue]
