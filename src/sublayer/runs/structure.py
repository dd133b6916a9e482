"""A carried State as named tensors and a plain description, and back.

safetensors holds tensors alone, and pickle is never read: so the description says where each tensor stood. Classes are
looked up among the memories that exist; nothing is imported by name.
"""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from torch import Tensor

from sublayer.nn.state import Constant, Growing, PartState, State

PLAIN = (bool, int, float, str, type(None))


def take_apart(state: State) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """The description, as plain JSON, and the tensors it refers to by name."""
    tensors: dict[str, Tensor] = {}
    kept = {f.name: _describe(getattr(state, f.name), f.name, tensors) for f in fields(state) if f.name != "used"}
    return kept, tensors


def put_together(description: dict[str, Any], tensors: dict[str, Tensor]) -> State:
    return State(**{name: _restore(value, tensors) for name, value in description.items()})


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
    # A copy: what is kept of a growing buffer is a view, and safetensors takes whole tensors only.
    tensors[name] = tensor.detach().clone().contiguous()
    if isinstance(value, Growing):
        return {"growing": name, "axis": value.axis}
    return {"constant": name} if isinstance(value, Constant) else {"tensor": name}


def _restore(value: dict[str, Any], tensors: dict[str, Tensor]) -> Any:
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
