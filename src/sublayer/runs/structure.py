"""A carried State as named tensors and a plain description, and back.

safetensors holds tensors alone, and pickle is never read: so the description holds the structure, with tensors by name.
Classes are looked up among the memories that exist; nothing is imported by name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from torch import Tensor

from sublayer.nn.state import Constant, Growing, PartState, State
from sublayer.runs.sealed_json import short

PLAIN = (bool, int, float, str, type(None))
TENSORS = ("tensor", "constant", "growing")
EMPTY = {"value": None}


def take_apart(state: State) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """The description, as plain JSON, and the tensors it refers to by name."""
    tensors: dict[str, Tensor] = {}
    found = {f.name: _describe(getattr(state, f.name), f.name, tensors) for f in fields(state) if f.name != "used"}
    return found, tensors


def put_together(description: Mapping[str, Any], tensors: Mapping[str, Tensor], like: State | None = None) -> State:
    """The state again. like: one that the same model made of as many rows; another structure is refused by name."""
    try:
        if like is not None:
            _check(description, tensors, *take_apart(like))
        return State(**{name: _restore(value, tensors) for name, value in description.items()})
    except (KeyError, TypeError, AttributeError, IndexError) as error:
        raise ValueError(
            f"carried state: not what was written ({type(error).__name__}: {error}); use another checkpoint by --step"
        ) from None


def _check(
    here: Any, tensors: Mapping[str, Tensor], expected: Any, model: Mapping[str, Tensor], name: str = ""
) -> None:
    """The same structure: tables and lists of the same names and sizes, tensors of the same type, rows and width.

    How many tokens are remembered may differ, and a memory may be empty in one of the two.
    """
    if EMPTY in (here, expected):
        return
    where = f"carried state{f', {name}' if name else ''}"
    if type(here) is not type(expected):
        raise ValueError(f"{where}: is {short(here)}, expected {short(expected)}; use another checkpoint by --step")
    if isinstance(here, list):
        if len(here) != len(expected):
            raise ValueError(f"{where}: has {len(here)} entries, the model {len(expected)}; use another checkpoint")
        for n, (one, other) in enumerate(zip(here, expected, strict=True)):
            _check(one, tensors, other, model, f"{name}.{n}")
    elif isinstance(here, dict):
        if here.keys() != expected.keys() or any(
            here[key] != expected[key] for key in ("memory", "axis") if key in here
        ):
            raise ValueError(f"{where}: is {short(here)}, expected {short(expected)}; use another checkpoint by --step")
        if (key := next((key for key in TENSORS if key in here), None)) is not None:
            _check_tensor(where, tensors[here[key]], model[expected[key]], here.get("axis"))
        elif "value" not in here:
            for key in here:
                _check(here[key], tensors, expected[key], model, f"{name}.{key}".lstrip("."))


def _check_tensor(where: str, here: Tensor, expected: Tensor, axis: int | None) -> None:
    """axis: the one that grows with each batch; where it is not known, any but the first and the last may."""
    free = range(1, expected.dim() - 1) if axis is None else (axis,)
    same = here.dtype == expected.dtype and here.dim() == expected.dim()
    if not same or any(n not in free and size != expected.shape[n] for n, size in enumerate(here.shape)):
        raise ValueError(
            f"{where}: is {tuple(here.shape)} of {here.dtype}, expected {tuple(expected.shape)} of {expected.dtype}; "
            "use another checkpoint by --step"
        )


def _describe(value: Any, name: str, tensors: dict[str, Tensor]) -> Any:
    if isinstance(value, PLAIN):
        return {"value": value}
    if isinstance(value, (tuple, list)):
        items = [_describe(item, f"{name}.{n}", tensors) for n, item in enumerate(value)]
        return {"items": items, "list": isinstance(value, list)}
    if isinstance(value, dict):
        return {"table": {key: _describe(item, f"{name}.{key}", tensors) for key, item in value.items()}}
    if isinstance(value, PartState):
        inside = {f.name: _describe(getattr(value, f.name), f"{name}.{f.name}", tensors) for f in fields(value)}  # pyright: ignore[reportArgumentType]
        return {"memory": type(value).__qualname__, "fields": inside}
    tensor = value if isinstance(value, Tensor) else value.value
    # A copy: the used part of a growing buffer is a view, and safetensors takes whole tensors only.
    tensors[name] = tensor.detach().clone().contiguous()
    if isinstance(value, Growing):
        return {"growing": name, "axis": value.axis}
    return {"constant": name} if isinstance(value, Constant) else {"tensor": name}


def _restore(value: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> Any:
    if "value" in value:
        return value["value"]
    if "items" in value:
        return (list if value["list"] else tuple)(_restore(item, tensors) for item in value["items"])
    if "table" in value:
        return {key: _restore(item, tensors) for key, item in value["table"].items()}
    if "memory" in value:
        known = {kind.__qualname__: kind for kind in _kinds(PartState)}
        if value["memory"] not in known:
            raise ValueError(f"carried state: no memory {value['memory']!r} is known here; load its plug-in")
        return known[value["memory"]](**{name: _restore(item, tensors) for name, item in value["fields"].items()})
    if "growing" in value:
        return Growing.of(tensors[value["growing"]], value["axis"])
    return Constant(tensors[value["constant"]]) if "constant" in value else tensors[value["tensor"]]


def _kinds(base: type) -> list[type]:
    return [kind for child in base.__subclasses__() for kind in (child, *_kinds(child))]
