"""A LayerNorm and the matrix after it in one step of autograd: norm(x) is not saved; backward recomputes it."""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from sublayer.nn.hooked import hooked


def fuses(norm: nn.Module, layer: nn.Module, x: Tensor) -> bool:
    """Whether a gradient is wanted of these two and nothing stands between them; autocast handles them one by one."""
    if not torch.is_grad_enabled() or torch.is_autocast_enabled(x.device.type):
        return False
    plain = type(norm) is nn.LayerNorm and norm.weight is not None and type(layer) is nn.Linear
    return plain and not hooked(norm, layer)


def normed_linear(norm: nn.LayerNorm, layer: nn.Linear, x: Float[Tensor, "*BL D"]) -> Float[Tensor, "*BL Z"]:
    return NormedLinear.apply(x, norm.weight, norm.bias, norm.eps, layer.weight, layer.bias)  # pyright: ignore[reportReturnType]


class NormedLinear(torch.autograd.Function):
    """y = W norm(x) + b, without a second derivative."""

    @staticmethod
    def forward(
        ctx: Any,
        x: Float[Tensor, "*BL D"],
        gain_D: Float[Tensor, " D"],
        shift_D: Float[Tensor, " D"] | None,
        eps: float,
        weight_ZD: Float[Tensor, "Z D"],
        bias_Z: Float[Tensor, " Z"] | None,
    ) -> Float[Tensor, "*BL Z"]:
        normed, mean, scale = torch.native_layer_norm(x, x.shape[-1:], gain_D, shift_D, eps)
        ctx.save_for_backward(x, gain_D, shift_D, mean, scale, weight_ZD)
        ctx.eps, ctx.biased = eps, bias_Z is not None
        return F.linear(normed, weight_ZD, bias_Z)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:  # pyright: ignore[reportIncompatibleMethodOverride]
        x, gain_D, shift_D, mean, scale, weight_ZD = ctx.saved_tensors
        grad_NZ = grad.flatten(0, -2)
        normed_ND = F.layer_norm(x, x.shape[-1:], gain_D, shift_D, ctx.eps).flatten(0, -2)
        to_weight_ZD = grad_NZ.T @ normed_ND
        to_normed = torch.mm(grad_NZ, weight_ZD, out=normed_ND).view_as(x)
        to_x, to_gain_D, to_shift_D = torch.ops.aten.native_layer_norm_backward(
            to_normed, x, x.shape[-1:], mean, scale, gain_D, shift_D, [True, True, shift_D is not None]
        )
        return to_x, to_gain_D, to_shift_D, None, to_weight_ZD, grad_NZ.sum(0) if ctx.biased else None
