"""Proxies from the first gradient and its change: gradient norm, SNIP, GraSP."""

from __future__ import annotations

import torch

from sublayer.data import Batch
from sublayer.nas.proxies.base import proxy
from sublayer.nas.proxies.loss import (
    gradients,
    matrices,
    open_loss,
    posed,
    precise,
    twice_differentiable,
    without_dropout,
)
from sublayer.nn.model import Model

ABDELFATTAH = "Abdelfattah et al. 2021, Zero-Cost Proxies for Lightweight NAS, arXiv:2101.08134"


@proxy("grad_norm", cite=ABDELFATTAH)
def grad_norm(model: Model, batch: Batch) -> float:
    """Σ over matrices of ‖∂L/∂W‖₂."""
    return sum(float(grad.double().norm()) for grad in gradients(model, batch).values())


@proxy("snip", cite="Lee, Ajanthan & Torr 2019, SNIP, arXiv:1810.02340, eq. 4")
def snip(model: Model, batch: Batch) -> float:
    """Σ |θ ∂L/∂θ|: how much the loss depends on the presence of each weight."""
    weights = matrices(model)
    grads = gradients(model, batch)
    return sum(float((weights[name].detach().double() * grad).abs().sum()) for name, grad in grads.items())


@proxy("grasp", higher=False, cite="Wang, Zhang & Grosse 2020, GraSP, arXiv:2002.07376, eq. 8")
def grasp(model: Model, batch: Batch) -> float:
    """−θᵀH g, g = ∂L/∂θ, H = ∂²L/∂θ²: how much gradient flow, gᵀg, would grow if weights were removed.

    GraSP keeps weights whose score is low, and LTS ranks models so; Abdelfattah et al. rank them the other way round.
    """
    weights = precise(model)
    scored = {name: weights[name].requires_grad_() for name in matrices(model)}
    with torch.enable_grad(), without_dropout(model), twice_differentiable():
        loss = open_loss(model, weights, posed(model, batch))
        g = torch.autograd.grad(loss, list(scored.values()), create_graph=True, materialize_grads=True)
        flow = sum(((grad * grad.detach()).sum() for grad in g), start=loss.new_zeros(()))  # its gradient is H g
        hg = torch.autograd.grad(flow, list(scored.values()), allow_unused=True, materialize_grads=True)
    return -sum(float((weight.detach() * one).sum()) for weight, one in zip(scored.values(), hg, strict=True))
