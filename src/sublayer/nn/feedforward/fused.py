"""The dense feed-forward in one step of autograd: the fast path of `dense.py`, whose plain code is its slow twin.

- Autograd would store the inputs of each product: norm(x), h and act(h). Here one fewer is stored, and recomputed
  in backward: norm(x), which is cheap, where the norm is part of the step; else act(h).
- On a CPU, intermediate results have a buffer for `ROWS` tokens, which is reused for all of them in turn and from call
  to call: tensors as wide as the inner layer stay in the cache, and need no new pages.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from sublayer.native.tensors import transformed
from sublayer.nn import paths
from sublayer.nn.feedforward.activation import Activation
from sublayer.nn.feedforward.dense import FEEDFORWARD, Dense
from sublayer.nn.hooked import hooked
from sublayer.nn.scratch import scratch

aten = torch.ops.aten

ROWS = 1024
"""Tokens at a time; with fewer, matrix products lose more than the cache gains."""

ACT: dict[Activation, Callable[[Tensor, Tensor], Tensor]] = {
    "relu": lambda h, out: torch.clamp(h, min=0, out=out),
    "gelu": lambda h, out: aten.gelu.out(h, out=out),
    "swish": lambda h, out: aten.silu.out(h, out=out),
}
"""act(h), written to `out`; activations that are cheap to recompute (the tanh of gelu_tanh is not)."""

SLOPES: dict[Activation, Callable[[Tensor, Tensor], Tensor]] = {
    "relu": lambda grad, h: aten.threshold_backward.grad_input(grad, h, 0, grad_input=grad),
    "gelu": lambda grad, h: aten.gelu_backward.grad_input(grad, h, approximate="none", grad_input=grad),
    "swish": lambda grad, h: aten.silu_backward.grad_input(grad, h, grad_input=grad),
}
"""grad·act′(h), written over grad."""


def why_not(part: Dense, mode: paths.Mode) -> str | None:
    """Why it does not serve a feed-forward; None if it does."""
    if mode == "generation":
        return "without a gradient there is nothing to save"
    if not isinstance(part.drop, nn.Identity):
        return "dropout on the activations"
    return None if part.activation in ACT else f"activation={part.activation} is not cheap to form again"


def serves(part: Dense, norm: nn.Module | None, x: Tensor) -> bool:
    """Whether a gradient is needed, and between norm and matrices there is the activation alone: no dropout, no other
    layer instead of a matrix. Autocast handles matrices one by one."""
    if not torch.is_grad_enabled() or torch.is_autocast_enabled(x.device.type) or transformed():
        return False
    if part.activation not in ACT or (part.training and not isinstance(part.drop, nn.Identity)):
        return False
    matrices = part.enter, part.output
    if any(type(matrix) is not nn.Linear for matrix in matrices) or hooked(*matrices):
        return False
    return norm is None or (type(norm) is nn.LayerNorm and norm.weight is not None and not hooked(norm, part))


def run(part: Dense, norm: nn.LayerNorm | None, x: Tensor) -> Tensor:
    first = (None, None, 0.0) if norm is None else (norm.weight, norm.bias, norm.eps)
    weights = part.enter.weight, part.enter.bias, part.output.weight, part.output.bias
    return FusedDense.apply(x, *first, *weights, part.activation)  # pyright: ignore[reportReturnType]


class FusedDense(torch.autograd.Function):
    """y = W₂ act(W₁ norm(x) + b₁) + b₂, without a second derivative; no norm where its gain is None."""

    @staticmethod
    def forward(
        ctx: Any,
        x: Float[Tensor, "*BL D"],
        gain_D: Float[Tensor, " D"] | None,
        shift_D: Float[Tensor, " D"] | None,
        eps: float,
        enter_FD: Float[Tensor, "F D"],
        bias_F: Float[Tensor, " F"] | None,
        output_DF: Float[Tensor, "D F"],
        bias_D: Float[Tensor, " D"] | None,
        activation: Activation,
    ) -> Float[Tensor, "*BL D"]:
        x_ND = x.flatten(0, -2)
        in_ND, mean, scale, normed = x_ND, None, None, gain_D is not None
        if normed:
            in_ND, mean, scale = torch.native_layer_norm(x_ND, x.shape[-1:], gain_D, shift_D, eps)
        h_NF, y_ND = x.new_empty(len(x_ND), len(enter_FD)), torch.empty_like(x_ND)
        act_NF = torch.empty_like(h_NF) if normed else None
        for n in _turns(h_NF):
            h, act = h_NF[n], _buffer(h_NF[n]) if act_NF is None else act_NF[n]
            ACT[activation](_linear(in_ND[n], enter_FD, bias_F, h), act)
            _linear(act, output_DF, bias_D, y_ND[n])
        ctx.save_for_backward(x, gain_D, shift_D, mean, scale, h_NF, act_NF, enter_FD, output_DF)
        ctx.eps, ctx.activation, ctx.biases = eps, activation, (bias_F is not None, bias_D is not None)
        return y_ND.view_as(x)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:  # pyright: ignore[reportIncompatibleMethodOverride]
        x, gain_D, shift_D, mean, scale, h_NF, act_NF, enter_FD, output_DF = ctx.saved_tensors
        x_ND, grad_ND = x.flatten(0, -2), grad.flatten(0, -2)
        to_in_ND, to_enter_FD, to_output_DF = (torch.empty_like(like) for like in (x_ND, enter_FD, output_DF))
        to_bias_F = h_NF.new_zeros(h_NF.shape[1]) if ctx.biases[0] else None
        for n in _turns(h_NF):
            buffer, first = _buffer(h_NF[n]), not n.start
            in_ND = x_ND[n] if gain_D is None else F.layer_norm(x_ND[n], x.shape[-1:], gain_D, shift_D, ctx.eps)
            act = ACT[ctx.activation](h_NF[n], buffer) if act_NF is None else act_NF[n]
            _add(to_output_DF, grad_ND[n].T, act, first=first)
            to_h = SLOPES[ctx.activation](torch.mm(grad_ND[n], output_DF, out=buffer), h_NF[n])
            _add(to_enter_FD, to_h.T, in_ND, first=first)
            torch.mm(to_h, enter_FD, out=to_in_ND[n])
            if to_bias_F is not None:
                to_bias_F += to_h.sum(0)
        to_x, to_gain_D, to_shift_D = to_in_ND, None, None
        if gain_D is not None:
            to_x, to_gain_D, to_shift_D = aten.native_layer_norm_backward(
                to_in_ND, x_ND, x.shape[-1:], mean, scale, gain_D, shift_D, [True, True, shift_D is not None]
            )
        to_bias_D = grad_ND.sum(0) if ctx.biases[1] else None
        to_norm = to_gain_D, to_shift_D, None
        return to_x.view_as(x), *to_norm, to_enter_FD, to_bias_F, to_output_DF, to_bias_D, None


def _turns(h_NF: Tensor) -> Iterator[slice]:
    """Slices of tokens that are processed together: at least one, which may be empty."""
    rows = ROWS if h_NF.device.type == "cpu" else max(1, len(h_NF))
    return (slice(start, start + rows) for start in range(0, max(1, len(h_NF)), rows))


def _buffer(like: Tensor) -> Float[Tensor, "N F"]:
    """Buffers for one slice."""
    return scratch(like.numel(), like.dtype).view_as(like) if like.device.type == "cpu" else torch.empty_like(like)


def _linear(x_ND: Tensor, weight: Tensor, bias: Tensor | None, out: Tensor) -> Tensor:
    return torch.mm(x_ND, weight.T, out=out) if bias is None else torch.addmm(bias, x_ND, weight.T, out=out)


def _add(total: Tensor, a: Tensor, b: Tensor, *, first: bool) -> None:
    """total += a b; the first time, total is not read."""
    torch.mm(a, b, out=total) if first else total.addmm_(a, b)


paths.register(paths.FastPath(FEEDFORWARD, "one autograd step", why_not, serves, run))
