"""Linear maps as the family starts them: weights normal with deviation 0.02, biases zero."""

from torch import nn


def linear(wide: int, out: int, bias: bool) -> nn.Linear:
    layer = nn.Linear(wide, out, bias)
    nn.init.normal_(layer.weight, std=0.02)
    if bias:
        nn.init.zeros_(layer.bias)
    return layer
