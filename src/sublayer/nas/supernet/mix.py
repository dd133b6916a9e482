"""A weighted sum of several sublayers' outputs, as one autograd function."""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import once_differentiable


def mix(
    x_BLD: Float[Tensor, "B L D"], m_C: Float[Tensor, " C"], shares: list[float], made: dict[int, Tensor]
) -> Float[Tensor, "B L D"]:
    """m_x·x + Σ_i m_i·F_i(x): `made` has F_i(x) by its column in m, `shares` are m as numbers, m_x is the rest of them.

    With a single path there is no sum: its output is returned as it is.
    """
    if not made:
        return x_BLD
    rest = sum(share for i, share in enumerate(shares) if i not in made)
    if len(made) == 1 and not rest and not m_C.requires_grad:
        return next(iter(made.values()))
    return Mix.apply(x_BLD, m_C, tuple(made), [shares[i] for i in made], rest, *made.values())  # pyright: ignore[reportReturnType]


class Mix(torch.autograd.Function):
    """The gradient of m_i is ⟨g, F_i(x) − x⟩ instead of ⟨g, F_i(x)⟩: the weights sum to one, so the softmax removes any
    constant. So only the sublayers that ran are needed, and the identity's gradient is 0.
    """

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, m_C: Tensor, columns: tuple[int, ...], shares: list[float], rest: float, *made: Tensor
    ) -> Tensor:
        ctx.columns, ctx.shares, ctx.rest, ctx.count = columns, shares, rest, len(m_C)
        if ctx.needs_input_grad[1]:
            ctx.save_for_backward(x, *made)
        total = made[0] * shares[0]
        for y, share in zip(made[1:], shares[1:], strict=True):
            total.add_(y, alpha=share)
        return total.add_(x, alpha=rest) if rest else total

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:  # pyright: ignore[reportIncompatibleMethodOverride]
        to_m_C = None
        if ctx.needs_input_grad[1]:
            x, *made = ctx.saved_tensors
            flat = grad.reshape(-1)
            worth = torch.stack([flat.dot(y.reshape(-1)) for y in made]) - flat.dot(x.reshape(-1))
            to_m_C = worth.new_zeros(ctx.count)
            to_m_C[list(ctx.columns)] = worth
        to_x = grad * ctx.rest if ctx.rest and ctx.needs_input_grad[0] else None
        wanted = ctx.needs_input_grad[5:]
        to_made = (grad * share if want else None for share, want in zip(ctx.shares, wanted, strict=True))
        return to_x, to_m_C, None, None, None, *to_made
