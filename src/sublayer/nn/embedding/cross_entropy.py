"""Cross entropy of a linear map's scores, without all the scores at once where they are many.

PyTorch's own linear_cross_entropy has no smoothing, forms the scores twice where tokens have weights, and rounds the
loss to bfloat16 where h is; so the fusion is written here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

LARGE = 2**24
"""Scores (tokens × classes) beyond which they are formed a chunk of tokens at a time: 64 MB in fp32."""

Reduction = Literal["mean", "sum"]


def of_linear(
    h_ND: Float[Tensor, "N D"],
    weight_VD: Float[Tensor, "V D"],
    bias_V: Float[Tensor, " V"] | None,
    target_N: Int[Tensor, " N"],
    weights_N: Tensor | None = None,
    smoothing: float = 0.0,
    reduction: Reduction = "mean",
) -> Float[Tensor, ""]:
    """CE(W h + b, target). Targets of −100 do not count; a target outside the classes raises IndexError on the CPU."""
    if len(h_ND) * len(weight_VD) <= LARGE:
        return of_scores(F.linear(h_ND, weight_VD, bias_V), target_N, weights_N, smoothing, reduction)
    counts_N = target_N != -100
    outside_N = counts_N & ((target_N < 0) | (target_N >= len(weight_VD)))
    if target_N.device.type == "cpu" and outside_N.any():
        raise IndexError("a target is outside the classes")
    share_N = counts_N.to(torch.promote_types(h_ND.dtype, torch.float32))
    share_N = share_N if weights_N is None else share_N * weights_N
    share_N = share_N if reduction == "sum" else share_N / share_N.sum()
    device = h_ND.device.type
    if torch.is_autocast_enabled(device):  # it knows F.linear, not this
        low = torch.get_autocast_dtype(device)
        h_ND, weight_VD, bias_V = h_ND.to(low), weight_VD.to(low), None if bias_V is None else bias_V.to(low)
    with torch.autocast(device, enabled=False):
        return _Fused.apply(  # pyright: ignore[reportReturnType]
            h_ND, weight_VD, bias_V, target_N.where(counts_N, 0), share_N, smoothing, torch.is_grad_enabled()
        )


def of_scores(
    scores_NV: Float[Tensor, "N V"],
    target_N: Int[Tensor, " N"],
    weights_N: Tensor | None = None,
    smoothing: float = 0.0,
    reduction: Reduction = "mean",
) -> Float[Tensor, ""]:
    if weights_N is None:
        return F.cross_entropy(scores_NV, target_N, reduction=reduction, label_smoothing=smoothing)
    loss_N = F.cross_entropy(scores_NV, target_N, reduction="none", label_smoothing=smoothing)
    return reduce(loss_N, target_N, weights_N, reduction)


def each(
    scores: Callable[[Tensor], Tensor], cells: int, h_ND: Float[Tensor, "N D"], target_N: Int[Tensor, " N"]
) -> Float[Tensor, " N"]:
    """The loss of each token, in fp32 at least; `scores` makes `cells` of them from a vector, for some at a time."""
    high, rows = torch.promote_types(h_ND.dtype, torch.float32), max(1, LARGE // cells)
    pairs = zip(h_ND.split(rows), target_N.split(rows), strict=True)
    return torch.cat([F.cross_entropy(scores(h).to(high), target, reduction="none") for h, target in pairs])


def reduce(
    loss_N: Float[Tensor, " N"], target_N: Int[Tensor, " N"], weights_N: Tensor | None, reduction: Reduction = "mean"
) -> Float[Tensor, ""]:
    """Σ w·loss, or that over the weight of the targets that count; the loss of those that do not is 0 already."""
    total = loss_N.sum() if weights_N is None else (loss_N * weights_N).sum()
    return total if reduction == "sum" else total / weight_of(target_N, weights_N)


def weight_of(target_N: Int[Tensor, " N"], weights_N: Tensor | None) -> Tensor:
    """The weight, or the number, of the targets that count."""
    counts_N = target_N != -100
    return counts_N.sum() if weights_N is None else (weights_N * counts_N).sum()


class _Fused(torch.autograd.Function):
    """Σ_n share_n·loss_n. The gradient goes on to h, W and b in the forward pass, while a chunk's scores are at hand;
    backward only scales it, and so has no derivative of its own."""

    @staticmethod
    def forward(
        ctx: Any,
        h_ND: Tensor,
        weight_VD: Tensor,
        bias_V: Tensor | None,
        target_N: Tensor,
        share_N: Tensor,
        smoothing: float,
        train: bool,
    ) -> Tensor:
        (N, D), V = h_ND.shape, len(weight_VD)
        high = torch.promote_types(h_ND.dtype, torch.float32)
        for_h, for_weight, for_bias = (train and wanted for wanted in ctx.needs_input_grad[:3])
        grad_h_ND = h_ND.new_empty(N, D) if for_h else None
        grad_weight_VD = h_ND.new_zeros(V, D, dtype=high) if for_weight else None
        grad_bias_V = h_ND.new_zeros(V, dtype=high) if for_bias else None
        total = h_ND.new_zeros((), dtype=high)
        rows = min(N, max(64, LARGE // V))
        buffer_NV = h_ND.new_empty(rows, V)
        for n in (slice(start, min(start + rows, N)) for start in range(0, N, rows)):
            h = h_ND[n]
            scores_NV = torch.mm(h, weight_VD.T, out=buffer_NV[: len(h)]).to(high)
            if bias_V is not None:
                scores_NV += bias_V
            loss, grad_NV = _loss_and_grad(scores_NV, target_N[n, None], share_N[n, None], smoothing)
            total += loss
            low_NV = grad_NV.to(h.dtype)
            if grad_h_ND is not None:
                torch.mm(low_NV, weight_VD, out=grad_h_ND[n])
            if grad_weight_VD is not None and low_NV.dtype == high:
                grad_weight_VD.addmm_(low_NV.T, h)
            elif grad_weight_VD is not None:
                grad_weight_VD += low_NV.T @ h
            if grad_bias_V is not None:
                grad_bias_V += grad_NV.sum(0)
        ctx.save_for_backward(grad_h_ND, grad_weight_VD, grad_bias_V)
        return total

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:  # pyright: ignore[reportIncompatibleMethodOverride]
        return *(None if saved is None else grad * saved for saved in ctx.saved_tensors), None, None, None, None


def _loss_and_grad(
    scores_NV: Tensor, target_N1: Tensor, share_N1: Tensor, smoothing: float
) -> tuple[Float[Tensor, ""], Float[Tensor, "N V"]]:
    """Σ share·(lse(s) − (1−ε)·s_t − ε·mean(s)), and share·(softmax(s) − (1−ε)·onehot(t) − ε/V) in place of s."""
    aim_N1 = (1 - smoothing) * scores_NV.gather(1, target_N1)
    if smoothing:
        aim_N1 += smoothing * scores_NV.mean(1, keepdim=True)
    most_N1 = scores_NV.amax(1, keepdim=True)
    exp_NV = scores_NV.sub_(most_N1).exp_()
    sum_N1 = exp_NV.sum(1, keepdim=True)
    loss = ((most_N1 + sum_N1.log() - aim_N1) * share_N1).sum()
    grad_NV = exp_NV.mul_(share_N1 / sum_N1).scatter_add_(1, target_N1, (smoothing - 1) * share_N1)
    if smoothing:
        grad_NV -= smoothing / scores_NV.shape[1] * share_N1
    return loss, grad_NV
