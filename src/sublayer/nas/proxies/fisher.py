"""Fisher: how much the loss would change if a channel were removed."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from sublayer.data import Batch
from sublayer.nas.proxies.base import proxy
from sublayer.nas.proxies.loss import loss_of, posed, stack_of, without_dropout
from sublayer.nn.model import Model


@proxy("fisher", cite="Theis et al. 2018, Faster gaze prediction …, arXiv:1801.05787, eq. 7; Turner et al. 2020")
def fisher(model: Model, batch: Batch) -> float:
    """Σ over channels k of 1/(2N)·Σ_n (Σ_l a_nlk ∂L_n/∂a_nlk)², a the output of each linear map for row n."""
    seen: list[Tensor] = []
    maps = [module for module in stack_of(model).modules() if isinstance(module, nn.Linear)]

    def keep(module: nn.Module, given: tuple, a: Tensor) -> None:
        seen.append(a)

    hooks = [module.register_forward_hook(keep) for module in maps]
    try:
        with torch.enable_grad(), without_dropout(model):
            loss = loss_of(model, posed(model, batch))
            grads = torch.autograd.grad(loss, seen, allow_unused=True, materialize_grads=True)
    finally:
        for hook in hooks:
            hook.remove()
    rows = len(batch.inputs_BL)
    each = [
        # The loss is a mean over rows: times their number, this is the gradient of the row's own loss.
        (a.detach() * grad).double().sum(1) * rows
        for a, grad in zip(seen, grads, strict=True)
        if a.shape[:-1] == batch.inputs_BL.shape  # projections of distances have no rows
    ]
    return sum(float((g_NK**2).sum()) / (2 * rows) for g_NK in each)
