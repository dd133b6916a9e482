"""Products of parameters: a covering part is tried by default, all of it by `make stress`."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from hypothesis import settings


def cover(
    names: str, many: Sequence[Any] | Mapping[str, Any], few: Sequence[Any] | Mapping[str, Any], *, each: int = 1
):
    """Parametrize over `many` × `few`, names in that order: by default each of `many` meets `each` of `few`, in turn.

    Every value of both is met by default; a mapping gives values their ids. The rest is marked `stress`.
    """
    rows, columns = _named(many), _named(few)
    if len(rows) * each < len(columns):
        raise ValueError(f"{names}: {len(rows)} × {each} pairs cannot meet all {len(columns)} values; raise each")
    return pytest.mark.parametrize(
        names,
        [
            pytest.param(
                one, other, id=f"{name}-{label}", marks=() if (j - i * each) % len(columns) < each else _STRESS
            )
            for i, (name, one) in enumerate(rows)
            for j, (label, other) in enumerate(columns)
        ],
    )


def examples(few: int) -> int:
    """How many random examples of a costly test to draw: a few by default, more under HYPOTHESIS_PROFILE=dev."""
    return few * settings.default.max_examples // 10


_STRESS = (pytest.mark.stress,)


def _named(values: Sequence[Any] | Mapping[str, Any]) -> list[tuple[str, Any]]:
    return list(values.items()) if isinstance(values, Mapping) else [(str(value), value) for value in values]
