"""NVLAMB: Adam's direction, with a rate for each tensor in proportion to its norm."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor


class NvLamb(torch.optim.Optimizer):
    """u = m̂/(√v̂ + ε) + λw; w ← w − η·‖w‖/‖u‖·u (You et al. 2020, algorithm 2).

    As NVIDIA's variant has it: the gradient is first divided by its norm over all tensors where that is above 1, the
    moments are bias-corrected, and tensors without decay have a layer-wise rate, too.
    """

    def __init__(
        self, params: Any, lr: float, betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-6, decay: float = 0.0
    ) -> None:
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, "weight_decay": decay})

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        assert closure is None
        grads = [p.grad for group in self.param_groups for p in group["params"] if p.grad is not None]
        if not grads:
            return
        shrink = torch.nn.utils.get_total_norm(grads).clamp(min=1.0)
        for group in self.param_groups:
            for weight in group["params"]:
                if weight.grad is not None:
                    self._move(weight, weight.grad / shrink, group)

    def _move(self, weight: Tensor, grad: Tensor, group: dict[str, Any]) -> None:
        state, (beta1, beta2) = self.state[weight], group["betas"]
        if not state:
            state["step"] = torch.zeros((), dtype=torch.float32)
            state["m"], state["v"] = torch.zeros_like(weight), torch.zeros_like(weight)
        state["step"] += 1
        state["m"].lerp_(grad, 1 - beta1)
        state["v"].mul_(beta2).addcmul_(grad, grad, value=1 - beta2)
        steps = int(state["step"])
        m, v = state["m"] / (1 - beta1**steps), state["v"] / (1 - beta2**steps)
        update = m / (v.sqrt() + group["eps"]) + group["weight_decay"] * weight
        size, length = weight.norm(), update.norm()
        ratio = torch.where((size > 0) & (length > 0), size / length, torch.ones_like(size))
        weight.sub_(group["lr"] * ratio * update)
