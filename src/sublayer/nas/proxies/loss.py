"""The loss of a model on a batch, as in training, and in a form that can be differentiated twice."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn import functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.modules.module import register_module_forward_pre_hook

from sublayer.data import Batch
from sublayer.nn.embedding import cross_entropy
from sublayer.nn.model import Model
from sublayer.nn.stack import Stack
from sublayer.objectives import choose


def stack_of(model: Model) -> Stack:
    """The one stack, which proxies score: embeddings hold most weights of a small model, but show little about it."""
    stack = getattr(model, "stack", None)
    if not isinstance(stack, Stack):
        raise ValueError(f"{model.config.tag}: has no single stack to score; give a decoder or an encoder")
    return stack


def matrices(model: Model) -> dict[str, nn.Parameter]:
    """The scored parameters by name: the matrices of the sublayers, without biases and gains."""
    stack = stack_of(model)
    shared = {id(weight) for weight in stack.position.parameters()}
    own = {id(weight) for weight in stack.sublayers.parameters() if weight.dim() >= 2} - shared
    return {name: weight for name, weight in model.named_parameters() if id(weight) in own}


@contextmanager
def without_dropout(model: Model) -> Iterator[None]:
    """Without dropout."""
    was = model.training
    model.eval()
    try:
        yield
    finally:
        model.train(was)


def posed(model: Model, batch: Batch) -> Batch:
    """What the model is asked: the next tokens, or those hidden from an encoder."""
    return choose(model.config).build(model).pose(batch)


def loss_of(model: Model, batch: Batch) -> Float[Tensor, ""]:
    """Mean nats per token of a posed batch, plus auxiliary losses."""
    others: dict[str, Tensor] = {}
    h_BLD, _ = model(batch.inputs_BL, losses=others)
    loss = model.head.loss(h_BLD, batch.targets_BL, batch.weights_BL)
    return loss + sum(others.values()) if others else loss


def gradients(model: Model, batch: Batch) -> dict[str, Tensor]:
    """∂ loss / ∂ matrix, by name; the model's own gradients are not touched."""
    weights = matrices(model)
    with torch.enable_grad(), without_dropout(model):
        loss = loss_of(model, posed(model, batch))
        grads = torch.autograd.grad(loss, list(weights.values()), allow_unused=True, materialize_grads=True)
    return dict(zip(weights, grads, strict=True))


@contextmanager
def twice_differentiable() -> Iterator[None]:
    """Only operations of PyTorch that can be differentiated twice: a hook on all modules disables fused paths.

    Native attention is disabled by weights in float64.
    """
    with register_module_forward_pre_hook(lambda module, given: None), sdpa_kernel(SDPBackend.MATH):
        yield


def precise(model: Model) -> dict[str, Tensor]:
    """All weights and buffers in float64, by name; the model keeps its own."""
    tensors = {**dict(model.named_parameters()), **dict(model.named_buffers())}
    return {name: one.detach().double() if one.is_floating_point() else one for name, one in tensors.items()}


def open_loss(model: Model, weights: Mapping[str, Tensor], batch: Batch) -> Float[Tensor, ""]:
    """`loss_of` as a function of the weights, within `twice_differentiable`."""
    return functional_call(_OpenLoss(model), {f"model.{name}": one for name, one in weights.items()}, (batch,))


class _OpenLoss(nn.Module):
    """By log-probabilities of all words: the loss of training forms its own gradient where they are many."""

    def __init__(self, model: Model) -> None:
        super().__init__()
        self.model = model

    def forward(self, batch: Batch) -> Tensor:
        others: dict[str, Tensor] = {}
        h_BLD, _ = self.model(batch.inputs_BL, losses=others)
        log_probs_NV, target_N = self.model.head.log_probs(h_BLD).flatten(0, -2), batch.targets_BL.flatten()
        loss_N = F.nll_loss(log_probs_NV, target_N, reduction="none")
        weights_N = None if batch.weights_BL is None else batch.weights_BL.flatten()
        return cross_entropy.reduce(loss_N, target_N, weights_N) + sum(others.values())
