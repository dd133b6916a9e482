"""Cross entropy of a linear map's scores, without all the scores at once where they are many."""

from __future__ import annotations

from typing import Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import LinearCrossEntropyOptions
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
    """CE(W h + b, target). Large, the gradients are formed chunk by chunk in the forward pass, so none is held back."""
    if len(h_ND) * len(weight_VD) <= LARGE:
        return of_scores(F.linear(h_ND, weight_VD, bias_V), target_N, weights_N, smoothing, reduction)
    device = h_ND.device.type
    if not torch.is_autocast_enabled(device):
        return _chunked(h_ND, weight_VD, bias_V, target_N, weights_N, smoothing, reduction)
    # Autocast knows F.linear and F.cross_entropy, not their fusion: what it would do to them is done here.
    low = torch.get_autocast_dtype(device)
    with torch.autocast(device, enabled=False):
        bias_V = None if bias_V is None else bias_V.to(low)
        return _chunked(h_ND.to(low), weight_VD.to(low), bias_V, target_N, weights_N, smoothing, reduction)


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


def _chunked(
    h_ND: Tensor,
    weight_VD: Tensor,
    bias_V: Tensor | None,
    target_N: Tensor,
    weights_N: Tensor | None,
    smoothing: float,
    reduction: Reduction,
) -> Tensor:
    options = LinearCrossEntropyOptions(batch_chunk_size=max(64, LARGE // len(weight_VD)))
    inner = reduction if weights_N is None else "none"
    loss = F.linear_cross_entropy(h_ND, weight_VD, target_N, linear_bias=bias_V, reduction=inner, options=options)
    loss = loss.to(torch.promote_types(loss.dtype, torch.float32))
    if smoothing:
        gap_N = smoothing * _gap(h_ND, weight_VD, bias_V, target_N)
        loss = loss + (gap_N if weights_N is not None else reduce(gap_N, target_N, None, reduction))
    return loss if weights_N is None else reduce(loss, target_N, weights_N, reduction)


def _gap(h_ND: Tensor, weight_VD: Tensor, bias_V: Tensor | None, target_N: Tensor) -> Tensor:
    """Score of the target less the mean score, 0 where there is no target.

    Smoothed loss = lse(s) − (1−ε)·s_t − ε·mean(s) = (lse(s) − s_t) + ε·(s_t − mean(s)): smoothing adds only what is
    linear in h, which takes no V scores a token.
    """
    counts_N = target_N != -100
    t_N = target_N.where(counts_N, 0)
    high = torch.promote_types(h_ND.dtype, torch.float32)
    gap_N = (h_ND * (F.embedding(t_N, weight_VD) - weight_VD.mean(0))).sum(-1, dtype=high)
    if bias_V is not None:
        gap_N = gap_N + (bias_V[t_N] - bias_V.mean())
    return gap_N * counts_N
