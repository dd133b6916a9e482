"""What modules do between two steps of training: a module that draws or moves something has a method `after_step`."""

from __future__ import annotations

from torch import nn


def after_step(model: nn.Module, step: int) -> None:
    """Tell every module that has such a method how many steps were taken."""
    for module in model.modules():
        if (told := getattr(module, "after_step", None)) is not None:
            told(step)
