"""SynFlow: how much flows through a network of positive weights, without data."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call

from sublayer.data import Batch
from sublayer.nas.proxies.base import proxy
from sublayer.nas.proxies.loss import matrices, precise, stack_of, twice_differentiable, without_dropout
from sublayer.nn.model import Model
from sublayer.nn.part import Part
from sublayer.nn.residual import Norm


@proxy("synflow", cite="Tanaka et al. 2020, SynFlow, arXiv:2006.05467, eq. 3")
def synflow(model: Model, batch: Batch) -> float:
    """ln Σ |θ| ∂R/∂|θ|, R the sum of the stack's output with weights |θ| for an input of ones; float64.

    The network is made linear: norms multiply by their gain alone, activations pass their input, gates of GLUs stand
    open. All tokens are equal, so attention gives their common value, whatever the queries and keys. The batch gives
    the length. −∞ where nothing flows (ReZero), ∞ beyond the range of float64.
    """
    weights = positive(model)
    scored = [weights[name].requires_grad_() for name in matrices(model)]
    with torch.enable_grad(), without_dropout(model), twice_differentiable(), linear(stack_of(model)):
        h_BLD, _ = functional_call(model, weights, (batch.inputs_BL[:1],))
        grads = torch.autograd.grad(h_BLD.sum(), scored, allow_unused=True, materialize_grads=True)
    each = ((weight.detach(), grad) for weight, grad in zip(scored, grads, strict=True))
    total = sum(float(torch.where(weight > 0, weight * grad, 0.0).sum()) for weight, grad in each)
    if not math.isfinite(total):
        return math.inf
    return math.log(total) if total > 0 else -math.inf


def positive(model: Model) -> dict[str, Tensor]:
    """|θ| by name; 0 for queries and keys, whose products would overflow first, and do not matter."""
    weights = {name: one.abs() for name, one in precise(model).items()}
    for name, module in model.named_modules():
        if isinstance(module, Part):
            for own, rows in module.score_weights().items():
                weights[f"{name}.{own}"][rows] = 0
    return weights


@contextmanager
def linear(stack: nn.Module) -> Iterator[None]:
    """The stack gets ones as input, and is linear."""
    with ExitStack() as undo:
        undo.callback(stack.register_forward_pre_hook(_ones).remove)
        for module in stack.modules():
            if isinstance(module, nn.LayerNorm | nn.RMSNorm | Norm):
                undo.callback(module.register_forward_hook(_gain).remove)
            elif isinstance(module, Part):
                undo.enter_context(module.linearized())
        yield


def _ones(stack: nn.Module, given: tuple[Any, ...]) -> tuple[Any, ...]:
    return torch.ones_like(given[0]), *given[1:]


def _gain(norm: nn.Module, given: tuple[Tensor, ...], y: Tensor) -> Tensor:
    weight = getattr(norm, "weight", None)
    return given[0] if weight is None else given[0] * weight
