"""The loop as one step of autograd."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from sublayer.nn.stack.unrolled.backward import BackwardLoop
from sublayer.nn.stack.unrolled.loop import Loop
from sublayer.nn.stack.unrolled.plan import Plan


class Unrolled(torch.autograd.Function):
    """x_TBD, keys and values of the memory (sets, B, G, M, K), mask and rotation, weights → the stream after the last
    sublayer, all keys and values, and the memory vectors, which have no gradient."""

    @staticmethod
    def forward(
        ctx: Any,
        plan: Plan,
        mask_TBC: Tensor | None,
        rotation: tuple[Tensor, Tensor] | None,
        x_TBD: Tensor,
        past_k: Tensor,
        past_v: Tensor,
        *weights: Tensor,
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        loop = Loop(plan, mask_TBC, rotation, x_TBD, past_k, past_v, weights)
        loop.run()
        # Tensors saved this way are freed after backward, and autograd raises if one was changed in place meanwhile.
        ctx.save_for_backward(*weights, *loop.held())
        ctx.loop, ctx.count = loop.emptied(), len(weights)
        ctx.mark_non_differentiable(loop.m_TRBD)
        # Detached: outputs refer to this node, which has saved k and v; undetached, the cycle would never be freed.
        return loop.x_NTBD[-1], loop.k.detach(), loop.v.detach(), loop.m_TRBD

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, to_x: Tensor, to_k: Tensor, to_v: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:  # pyright: ignore[reportIncompatibleMethodOverride]
        weights, held = ctx.saved_tensors[: ctx.count], ctx.saved_tensors[ctx.count :]
        back = BackwardLoop(ctx.loop.filled(weights, held), weights, to_k, to_v)
        back.run(to_x)
        return None, None, None, back.to_x_TBD, back.past(back.to_k), back.past(back.to_v), *back.to_weights
