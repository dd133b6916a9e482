"""The dense feed-forward in one step of autograd: the fast path of `dense.py`, whose plain line is its slow twin.

Autograd would keep act(h) for W₂'s gradient beside h for the activation's. Here only h is kept: act(h) is formed again
in backward, in the buffer that next holds its gradient.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import once_differentiable

from sublayer.nn.feedforward.activation import ACTIVATIONS, Activation

aten = torch.ops.aten

SLOPES: dict[Activation, Callable[[Tensor, Tensor], Tensor]] = {
    "relu": lambda grad, h: aten.threshold_backward.grad_input(grad, h, 0, grad_input=grad),
    "gelu": lambda grad, h: aten.gelu_backward.grad_input(grad, h, approximate="none", grad_input=grad),
    "swish": lambda grad, h: aten.silu_backward.grad_input(grad, h, grad_input=grad),
}
"""grad·act′(h), written over grad; for activations that are cheap to form again (the tanh of gelu_tanh is not)."""


def serves(x: Tensor, activation: Activation) -> bool:
    """Whether a gradient is wanted, and this can give it: autocast knows matrices, not what is fused of them."""
    wanted = torch.is_grad_enabled() and not torch.is_autocast_enabled(x.device.type)
    return wanted and activation in SLOPES


class FusedDense(torch.autograd.Function):
    """y = W₂ act(W₁ x + b₁) + b₂, without a second derivative."""

    @staticmethod
    def forward(
        ctx: Any,
        x: Float[Tensor, "*BL D"],
        enter_FD: Float[Tensor, "F D"],
        bias_F: Float[Tensor, " F"] | None,
        output_DF: Float[Tensor, "D F"],
        bias_D: Float[Tensor, " D"] | None,
        activation: Activation,
    ) -> Float[Tensor, "*BL D"]:
        h = torch.nn.functional.linear(x, enter_FD, bias_F)
        ctx.save_for_backward(x, h, enter_FD, output_DF)
        ctx.activation, ctx.biases = activation, (bias_F is not None, bias_D is not None)
        return torch.nn.functional.linear(ACTIVATIONS[activation](h), output_DF, bias_D)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:  # pyright: ignore[reportIncompatibleMethodOverride]
        x, h, enter_FD, output_DF = ctx.saved_tensors
        x_ND, h_NF, grad_ND = x.flatten(0, -2), h.flatten(0, -2), grad.flatten(0, -2)
        act_NF = ACTIVATIONS[ctx.activation](h_NF)
        to_output_DF = grad_ND.T @ act_NF
        grad_NF = SLOPES[ctx.activation](torch.mm(grad_ND, output_DF, out=act_NF), h_NF)
        to_bias_F = grad_NF.sum(0) if ctx.biases[0] else None
        to_bias_D = grad_ND.sum(0) if ctx.biases[1] else None
        return (grad_NF @ enter_FD).view_as(x), grad_NF.T @ x_ND, to_bias_F, to_output_DF, to_bias_D, None
