"""The loop as one step of autograd."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from sublayer.nn.stack.unrolled.backward import Back
from sublayer.nn.stack.unrolled.loop import Loop
from sublayer.nn.stack.unrolled.plan import Plan


class Unrolled(torch.autograd.Function):
    """x_TBD, keys and values of what is remembered (sets, B, G, M, K), masks and turns, weights → the stream after the
    last sublayer, all keys and values, and the memory vectors, which have no gradient."""

    @staticmethod
    def forward(
        ctx: Any,
        plan: Plan,
        mask_TBC: Tensor | None,
        turn: tuple[Tensor, Tensor] | None,
        x_TBD: Tensor,
        past_k: Tensor,
        past_v: Tensor,
        *weights: Tensor,
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        loop = Loop(plan, mask_TBC, turn, x_TBD, past_k, past_v, weights)
        loop.run()
        # What autograd itself holds is let go of with the way back, and told of if somebody wrote over it.
        ctx.save_for_backward(*weights, *loop.held())
        ctx.loop, ctx.count = loop.emptied(), len(weights)
        ctx.mark_non_differentiable(loop.m_TRBD)
        # Not the loop's own tensors: what is given has this step as its origin, and would keep itself alive for ever.
        return loop.x_NTBD[-1], loop.k.detach(), loop.v.detach(), loop.m_TRBD

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, to_x: Tensor, to_k: Tensor, to_v: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:  # pyright: ignore[reportIncompatibleMethodOverride]
        weights, held = ctx.saved_tensors[: ctx.count], ctx.saved_tensors[ctx.count :]
        back = Back(ctx.loop.filled(weights, held), weights, to_k, to_v)
        back.run(to_x)
        return None, None, None, back.to_x_TBD, back.past(back.to_k), back.past(back.to_v), *back.to_weights
