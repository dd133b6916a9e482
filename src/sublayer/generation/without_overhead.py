"""A copy of a model whose modules are plain objects: for calls so short that the overhead of a module call matters.

At one token a time, what `torch.nn.Module` does around each `forward` (hooks, lookups of children and parameters) costs
as much as the arithmetic of a small model.
"""

from __future__ import annotations

from functools import cache
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from sublayer.nn.hooked import hooked

AnyModule = TypeVar("AnyModule", bound=nn.Module)

LARGE = 2**30
"""Most bytes of weights that are copied into another layout."""
EVERY_MODULE = frozenset(vars(nn.Module()))
"""Attributes that every module has."""


def without_overhead(model: AnyModule, steps: bool = False) -> AnyModule:
    """The same model on the same parameters, in eval mode, its modules plain objects; the original does not change.

    steps: weights are laid out for products with one vector, for which some are copied.
    """
    copied = sum(
        layer.weight.nbytes for layer in model.modules() if isinstance(layer, nn.Linear) and _gains_from_columns(layer)
    )
    return _twin_of(model, {}, steps and copied <= LARGE)


def _twin_of(value: Any, done: dict[int, Any], steps: bool) -> Any:
    """The twin of a module, or of each module in a list; any other value unchanged."""
    if isinstance(value, nn.Module):
        return done[id(value)] if id(value) in done else _twin(value, done, steps)
    if type(value) in (list, tuple) and any(isinstance(item, nn.Module) for item in value):
        return type(value)(_twin_of(item, done, steps) for item in value)
    return value


def _twin(module: nn.Module, done: dict[int, Any], steps: bool) -> Any:
    twin = object.__new__(type(module) if hooked(module) else _without_hooks(type(module)))
    done[id(module)] = twin
    children = {name: _twin_of(child, done, steps) for name, child in module._modules.items()}
    parameters = dict(module._parameters)
    if steps and _gains_from_columns(module):
        parameters["weight"] = column_major(module.weight)  # pyright: ignore[reportArgumentType]
    # Attributes that refer to modules of another owner.
    others = {name: _twin_of(value, done, steps) for name, value in vars(module).items() if name not in EVERY_MODULE}
    own = {"_modules": children, "_parameters": parameters, "_compiled_call_impl": None, "training": False}
    # Plain attributes are found directly, without Module.__getattr__.
    vars(twin).update({**vars(module), **others, **module._buffers, **parameters, **children, **own})
    return twin


@cache
def _without_hooks(kind: type[nn.Module]) -> type[nn.Module]:
    """A subclass whose call is its `forward` alone: no hooks."""
    return type(kind.__name__, (kind,), {"__call__": kind.forward, "__module__": kind.__module__})


def column_major(weight: Tensor) -> nn.Parameter:
    """The same matrix, columns contiguous: with one vector, BLAS is up to twice as fast along the longer axis."""
    return nn.Parameter(weight.detach().t().contiguous().t(), requires_grad=False)


def _gains_from_columns(layer: nn.Module) -> bool:
    if type(layer) is not nn.Linear or layer.out_features <= layer.in_features:
        return False
    weight = layer.weight
    return type(weight) is nn.Parameter and weight.is_contiguous() and weight.device == torch.device("cpu")
