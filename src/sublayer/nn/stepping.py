"""What modules do between two steps of training: a module that draws or moves something has a method `after_step`.

One that moves by what it has seen in the step has `sums` too: tensors that several processes, each of which saw its own
rows, add up before.
"""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor, nn


def after_step(model: nn.Module, step: int, add_up: Callable[[Tensor], object] | None = None) -> None:
    """Tell every module that has such a method how many steps were taken. `add_up`: replaces a tensor by its sum over
    all processes."""
    for module in model.modules():
        if (told := getattr(module, "after_step", None)) is not None:
            if add_up is not None:
                for one in getattr(module, "sums", ()):
                    add_up(one)
            told(step)
