"""The dense feed-forward in one step of autograd: the fast path of `dense.py`, whose plain line is its slow twin.

- Autograd would keep act(h) for W₂'s gradient beside h for the activation's. Here only h is kept: act(h) is formed
  again in backward, in the buffer that next holds its gradient.
- On a CPU that buffer has room for `ROWS` tokens, serves all of them in turn and is kept from call to call: what is as
  wide as the inner layer stays near the processor, and costs no new pages.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import once_differentiable

from sublayer.nn.feedforward.activation import Activation

aten = torch.ops.aten

ROWS = 1024
"""Tokens at a time; with fewer, products lose more than caches win."""

ACT: dict[Activation, Callable[[Tensor, Tensor], Tensor]] = {
    "relu": lambda h, out: torch.clamp(h, min=0, out=out),
    "gelu": lambda h, out: aten.gelu.out(h, out=out),
    "swish": lambda h, out: aten.silu.out(h, out=out),
}
"""act(h), written to `out`; activations that are cheap to form again (the tanh of gelu_tanh is not)."""

SLOPES: dict[Activation, Callable[[Tensor, Tensor], Tensor]] = {
    "relu": lambda grad, h: aten.threshold_backward.grad_input(grad, h, 0, grad_input=grad),
    "gelu": lambda grad, h: aten.gelu_backward.grad_input(grad, h, approximate="none", grad_input=grad),
    "swish": lambda grad, h: aten.silu_backward.grad_input(grad, h, grad_input=grad),
}
"""grad·act′(h), written over grad."""


def serves(x: Tensor, activation: Activation) -> bool:
    """Whether a gradient is wanted, and this can give it: autocast knows matrices, not what is fused of them."""
    wanted = torch.is_grad_enabled() and not torch.is_autocast_enabled(x.device.type)
    return wanted and activation in ACT


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
        x_ND = x.flatten(0, -2)
        h_NF, y_ND = x.new_empty(len(x_ND), len(enter_FD)), torch.empty_like(x_ND)
        act_RF = _buffer(h_NF)
        for n in _turns(h_NF):
            act_NF = ACT[activation](_linear(x_ND[n], enter_FD, bias_F, h_NF[n]), act_RF[: len(h_NF[n])])
            _linear(act_NF, output_DF, bias_D, y_ND[n])
        ctx.save_for_backward(x, h_NF, enter_FD, output_DF)
        ctx.activation, ctx.biases = activation, (bias_F is not None, bias_D is not None)
        return y_ND.view_as(x)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:  # pyright: ignore[reportIncompatibleMethodOverride]
        x, h_NF, enter_FD, output_DF = ctx.saved_tensors
        x_ND, grad_ND = x.flatten(0, -2), grad.flatten(0, -2)
        to_x_ND, to_enter_FD, to_output_DF = (torch.empty_like(like) for like in (x_ND, enter_FD, output_DF))
        to_bias_F = h_NF.new_zeros(h_NF.shape[1]) if ctx.biases[0] else None
        buffer_RF = _buffer(h_NF)
        for n in _turns(h_NF):
            act_NF = ACT[ctx.activation](h_NF[n], buffer_RF[: len(h_NF[n])])
            _add(to_output_DF, grad_ND[n].T, act_NF, first=not n.start)
            grad_NF = SLOPES[ctx.activation](torch.mm(grad_ND[n], output_DF, out=act_NF), h_NF[n])
            _add(to_enter_FD, grad_NF.T, x_ND[n], first=not n.start)
            torch.mm(grad_NF, enter_FD, out=to_x_ND[n])
            if to_bias_F is not None:
                to_bias_F += grad_NF.sum(0)
        to_bias_D = grad_ND.sum(0) if ctx.biases[1] else None
        return to_x_ND.view_as(x), to_enter_FD, to_bias_F, to_output_DF, to_bias_D, None


def _turns(h_NF: Tensor) -> Iterator[slice]:
    """Which tokens come together: at least one turn, which may be empty."""
    rows = ROWS if h_NF.device.type == "cpu" else max(1, len(h_NF))
    return (slice(start, start + rows) for start in range(0, max(1, len(h_NF)), rows))


_kept = threading.local()


def _buffer(h_NF: Tensor) -> Float[Tensor, "R F"]:
    """Room for one turn; on a CPU, this thread's."""
    if h_NF.device.type != "cpu":
        return torch.empty_like(h_NF)
    needed, rows = min(ROWS, len(h_NF)) * h_NF.shape[1], min(ROWS, len(h_NF))
    kept = getattr(_kept, "buffer", None)
    if kept is None or kept.dtype != h_NF.dtype or len(kept) < needed:
        kept = _kept.buffer = h_NF.new_empty(needed)
    return kept[:needed].view(rows, h_NF.shape[1])


def _linear(x_ND: Tensor, weight: Tensor, bias: Tensor | None, out: Tensor) -> Tensor:
    return torch.mm(x_ND, weight.T, out=out) if bias is None else torch.addmm(bias, x_ND, weight.T, out=out)


def _add(total: Tensor, a: Tensor, b: Tensor, *, first: bool) -> None:
    """total += a b; the first time, total is not read."""
    torch.mm(a, b, out=total) if first else total.addmm_(a, b)
