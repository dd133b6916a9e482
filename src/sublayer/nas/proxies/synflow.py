"""SynFlow: how much passes through a network of positive weights, with no data."""

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
from sublayer.nas.proxies.loss import matrices, openly, precise, stack_of, still
from sublayer.nn.attention import MultiHead
from sublayer.nn.feedforward import Dense, Glu
from sublayer.nn.model import Model
from sublayer.nn.residual import Norm


@proxy("synflow", cite="Tanaka et al. 2020, SynFlow, arXiv:2006.05467, eq. 3")
def synflow(model: Model, batch: Batch) -> float:
    """ln Σ |θ| ∂R/∂|θ|, R the sum of what leaves the stack with weights |θ| when ones enter it; float64.

    The network is made linear: norms multiply by their gain alone, activations pass what they get, gates of GLUs stand
    open. All places hold the same, so attention passes its values on, whatever the queries and keys. The batch gives
    the length. −∞ where nothing flows (ReZero), ∞ where it is more than float64 holds.
    """
    weights = positive(model)
    scored = [weights[name].requires_grad_() for name in matrices(model)]
    with torch.enable_grad(), still(model), openly(), linear(stack_of(model)):
        h_BLD, _ = functional_call(model, weights, (batch.inputs_BL[:1],))
        grads = torch.autograd.grad(h_BLD.sum(), scored, allow_unused=True, materialize_grads=True)
    each = ((weight.detach(), grad) for weight, grad in zip(scored, grads, strict=True))
    total = sum(float(torch.where(weight > 0, weight * grad, 0.0).sum()) for weight, grad in each)
    if not math.isfinite(total):
        return math.inf
    return math.log(total) if total > 0 else -math.inf


def positive(model: Model) -> dict[str, Tensor]:
    """|θ| by name; 0 for queries and keys, whose products would overflow long before what flows."""
    weights = {name: one.abs() for name, one in precise(model).items()}
    for name, module in model.named_modules():
        if isinstance(module, MultiHead):
            weights[f"{name}.qkv.weight"][: (module.heads + module.groups) * module.head_dim] = 0
    return weights


@contextmanager
def linear(stack: nn.Module) -> Iterator[None]:
    """Ones enter, and nothing bends on the way."""
    with ExitStack() as undo:
        undo.callback(stack.register_forward_pre_hook(_ones).remove)
        for module in stack.modules():
            if isinstance(module, nn.LayerNorm | nn.RMSNorm | Norm):
                undo.callback(module.register_forward_hook(_gain).remove)
            elif isinstance(module, Dense):
                undo.callback(setattr, module, "activation", module.activation)
                module.activation = "linear"
            elif isinstance(module, Glu):
                undo.callback(setattr, module, "act", module.act)
                module.act = torch.ones_like
        yield


def _ones(stack: nn.Module, given: tuple[Any, ...]) -> tuple[Any, ...]:
    return torch.ones_like(given[0]), *given[1:]


def _gain(norm: nn.Module, given: tuple[Tensor, ...], y: Tensor) -> Tensor:
    weight = getattr(norm, "weight", None)
    return given[0] if weight is None else given[0] * weight
