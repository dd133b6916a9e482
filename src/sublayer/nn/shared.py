"""What layers of a stack share: modules that the stack owns, so that they are trained, saved and counted once."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from torch import nn

AnyModule = TypeVar("AnyModule", bound=nn.Module)


class SharedModules(nn.ModuleDict):
    """Modules by name, each made by the first layer that asks for it."""

    def once(self, name: str, make: Callable[[], AnyModule]) -> AnyModule:
        if name not in self:
            self[name] = make()
        return self[name]  # pyright: ignore[reportReturnType]


def refer(layer: nn.Module, name: str, module: nn.Module) -> None:
    """Set an attribute of a layer to a module that the stack owns: one registered twice would be saved twice."""
    object.__setattr__(layer, name, module)
