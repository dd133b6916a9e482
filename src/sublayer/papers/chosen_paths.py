"""Which path each sublayer takes for training and for generation, and why not a faster one.

The model is built on the meta device, without weights, since paths answer for modules. Rows come from three jobs of the
registry in nn/paths.py: parts by themselves, a whole stack, and a whole model that generates.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from sublayer.nn import paths
from sublayer.nn.model import Model
from sublayer.nn.residual import Residual
from sublayer.nn.stack import Stack


@dataclass(frozen=True)
class ChosenPath:
    """One row of the table; equal sublayers are counted together."""

    of: str
    """The kind of part, `stack`, or `model`."""
    count: int
    training: paths.Choice | None
    generation: paths.Choice | None
    """None where the row does not name it."""

    def dump(self) -> dict[str, Any]:
        return {
            "of": self.of,
            "count": self.count,
            "training": _dumped(self.training),
            "generation": _dumped(self.generation),
        }


def chosen_paths(config: Model.Config) -> list[ChosenPath]:
    model = without_weights(config)
    rows: list[ChosenPath] = []
    if config.writes and paths.registered("generation"):
        rows.append(ChosenPath("model", 1, None, paths.report("generation", model, "generation")))
    whole = bool(rows) and rows[0].generation is not None and rows[0].generation.path != paths.PLAIN
    for module in model.modules():
        if isinstance(module, Stack):
            training, generation = (paths.report("stack", module, mode) for mode in ("training", "generation"))
            if {training, generation} != {paths.Choice(paths.PLAIN)}:  # a plain stack has no paths of its own
                rows.append(ChosenPath("stack", 1, training, None if whole else generation))
        elif isinstance(module, Residual):
            part = module.part
            own = None if whole else part.path("generation")  # where one step does all, parts are not asked
            rows.append(ChosenPath(type(part).Config.tag or type(part).__name__.lower(), 1, part.path("training"), own))
    equal: dict[ChosenPath, int] = {}
    for row in rows:  # in the order of their first: attention and feed-forward alternate in most stacks
        equal[row] = equal.get(row, 0) + 1
    return [replace(row, count=count) for row, count in equal.items()]


def without_weights(config: Model.Config) -> Model:
    """The model on the meta device: shapes, and no numbers."""
    with torch.device("meta"), _WithoutDraws():
        return config.build()


class _WithoutDraws(TorchFunctionMode):
    """Weights without numbers need none drawn; PyTorch would load its compiler for that."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func in (torch.Tensor.normal_, torch.Tensor.uniform_) or getattr(func, "__module__", "") == "torch.nn.init":
            return kwargs["tensor"] if "tensor" in kwargs else args[0]
        return func(*args, **kwargs)


def _dumped(choice: paths.Choice | None) -> dict[str, Any] | None:
    return None if choice is None else {"path": choice.path, "why_not": dict(choice.why_not)}
