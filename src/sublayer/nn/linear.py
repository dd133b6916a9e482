"""Initial weights of linear maps and of embedding tables: normal; biases are zero."""

from typing import Literal

import torch
from torch import nn

DEVIATION = 0.02
"""GPT-2's: about 1/√inputs of a model some thousands wide."""

Spread = Literal["fixed", "unit"]
"""Initial deviation of an embedding table."""
DEVIATIONS: dict[Spread, float] = {"fixed": DEVIATION, "unit": 1.0}


def linear(wide: int, out: int, bias: bool) -> nn.Linear:
    layer = nn.Linear(wide, out, bias)
    nn.init.normal_(layer.weight, std=DEVIATION)
    if bias:
        nn.init.zeros_(layer.bias)
    layer.__dict__["deviation"] = DEVIATION
    return layer


@torch.no_grad()
def widen(module: nn.Module) -> None:
    """Rescale initial weights of linear maps to deviation 1/√inputs: the output has the variance of the input."""
    for layer in module.modules():
        if isinstance(layer, nn.Linear) and hasattr(layer, "deviation"):
            layer.weight.mul_(layer.in_features**-0.5 / DEVIATION)
