"""Mixing weights drawn from the architecture parameters: shares of all choices, or one path.

Noise comes from PyTorch's generator, as dropout's does; a loop that seeds each step draws the same again.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

Draw = Callable[[Tensor], Tensor]
"""Architecture parameters → mixing weights; each row sums to one."""


def shares(preference_NC: Float[Tensor, "N C"], temperature: float) -> Float[Tensor, "N C"]:
    """softmax((a + g)/τ), g from the Gumbel distribution (Jang et al. 2017; Maddison et al. 2017)."""
    return F.gumbel_softmax(preference_NC, temperature)


def path(preference_NC: Float[Tensor, "N C"], temperature: float) -> Float[Tensor, "N C"]:
    """One choice at each slot, drawn with probability softmax(a); its gradient is that of the shares."""
    shares_NC = shares(preference_NC, temperature)
    return one_hot(shares_NC) + (shares_NC - shares_NC.detach())


def best(preference_NC: Float[Tensor, "N C"]) -> Float[Tensor, "N C"]:
    """The most probable choice at each slot."""
    return one_hot(preference_NC.detach())


def one_hot(x_NC: Tensor) -> Tensor:
    return torch.zeros_like(x_NC).scatter_(1, x_NC.argmax(1, keepdim=True), 1.0)
