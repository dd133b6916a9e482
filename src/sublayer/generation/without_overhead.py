"""A model as it is, with nothing around its functions: for calls so short that the ceremony of a call counts.

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
"""Bytes of weights that a layout of their own may take."""
CEREMONY = frozenset(vars(nn.Module()))
"""What every module has."""


def without_overhead(model: AnyModule, steps: bool = False) -> AnyModule:
    """The same model on the same parameters, in eval mode, its modules plain objects; the model itself is not touched.

    steps: weights are laid out for products with one vector, for which some are copied.
    """
    copied = sum(layer.weight.nbytes for layer in model.modules() if isinstance(layer, nn.Linear) and _turns(layer))
    return _twin_of(model, {}, steps and copied <= LARGE)


def _twin_of(value: Any, done: dict[int, Any], steps: bool) -> Any:
    """A module's twin; of a list of modules, each one's; anything else as it is."""
    if isinstance(value, nn.Module):
        return done[id(value)] if id(value) in done else _twin(value, done, steps)
    if type(value) in (list, tuple) and any(isinstance(item, nn.Module) for item in value):
        return type(value)(_twin_of(item, done, steps) for item in value)
    return value


def _twin(module: nn.Module, done: dict[int, Any], steps: bool) -> Any:
    twin = object.__new__(type(module) if hooked(module) else _silent(type(module)))
    done[id(module)] = twin
    children = {name: _twin_of(child, done, steps) for name, child in module._modules.items()}
    parameters = dict(module._parameters)
    if steps and _turns(module):
        parameters["weight"] = turned(module.weight)  # pyright: ignore[reportArgumentType]
    # Plain references, to what another module owns.
    others = {name: _twin_of(value, done, steps) for name, value in vars(module).items() if name not in CEREMONY}
    own = {"_modules": children, "_parameters": parameters, "_compiled_call_impl": None, "training": False}
    # As plain attributes they are found at once, without Module.__getattr__.
    vars(twin).update({**vars(module), **others, **module._buffers, **parameters, **children, **own})
    return twin


@cache
def _silent(kind: type[nn.Module]) -> type[nn.Module]:
    """The class, called by its `forward` alone."""
    return type(kind.__name__, (kind,), {"__call__": kind.forward, "__module__": kind.__module__})


def turned(weight: Tensor) -> nn.Parameter:
    """The same matrix, columns contiguous: with one vector, BLAS is up to twice as fast along the longer axis."""
    return nn.Parameter(weight.detach().t().contiguous().t(), requires_grad=False)


def _turns(layer: nn.Module) -> bool:
    if type(layer) is not nn.Linear or layer.out_features <= layer.in_features:
        return False
    weight = layer.weight
    return type(weight) is nn.Parameter and weight.is_contiguous() and weight.device == torch.device("cpu")
