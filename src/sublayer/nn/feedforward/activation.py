"""Activations by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from torch import Tensor
from torch.nn import functional as F

Activation = Literal["relu", "gelu", "gelu_tanh", "swish", "elu", "selu", "sigmoid", "softplus", "linear"]

ACTIVATIONS: dict[Activation, Callable[[Tensor], Tensor]] = {
    "relu": F.relu,
    "gelu": F.gelu,
    "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"),
    "swish": F.silu,
    "elu": F.elu,
    "selu": F.selu,
    "sigmoid": F.sigmoid,
    "softplus": F.softplus,
    "linear": lambda x: x,
}
