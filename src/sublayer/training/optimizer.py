"""Optimisers by name. Weight decay acts on matrices, not on vectors (biases, norms' gains)."""

from __future__ import annotations

import copy
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Annotated, Any

import torch
from pydantic import Field
from torch import Tensor, nn

from sublayer.nn.config import Config, Positive, Rate
from sublayer.runs.weights import REMEDY, check_tensors
from sublayer.training.distribution import World
from sublayer.training.lamb import NvLamb

Decay = Annotated[float, Field(ge=0)]


class Optimizer:
    """Family of configs that build optimisers of PyTorch."""

    class Config(Config, family="optimizer"):
        def build(self, parameters: Iterable[nn.Parameter], lr: float) -> torch.optim.Optimizer:
            raise NotImplementedError


class Moments(Optimizer):
    """Abstract: those with two moments of each gradient."""

    class Config(Optimizer.Config):
        beta1: Rate = 0.9
        beta2: Rate = 0.95
        eps: Positive = 1e-8
        decay: Decay = 0.1
        """Weight decay, of matrices."""

        def arguments(self, lr: float) -> dict[str, Any]:
            return {"lr": lr, "betas": (self.beta1, self.beta2), "eps": self.eps}


class AdamW(Moments):
    """Decoupled weight decay (Loshchilov and Hutter 2019), in one fused kernel where the device has it."""

    class Config(Moments.Config, tag="adamw"):
        def build(self, parameters: Iterable[nn.Parameter], lr: float) -> torch.optim.Optimizer:
            return torch.optim.AdamW(groups(parameters, self.decay), **self.arguments(lr), fused=True)


class Adam(Moments):
    """Kingma and Ba 2015; decay, if any, is added to the gradient."""

    class Config(Moments.Config, tag="adam"):
        beta2: Rate = 0.999
        decay: Decay = 0.0

        def build(self, parameters: Iterable[nn.Parameter], lr: float) -> torch.optim.Optimizer:
            return torch.optim.Adam(groups(parameters, self.decay), **self.arguments(lr), fused=True)


class Lamb(Moments):
    """Layer-wise rates for large batches (You et al. 2020), as NVLAMB: see lamb.py."""

    class Config(Moments.Config, tag="lamb"):
        beta2: Rate = 0.999
        eps: Positive = 1e-6
        decay: Decay = 0.01

        def build(self, parameters: Iterable[nn.Parameter], lr: float) -> torch.optim.Optimizer:
            return NvLamb(groups(parameters, self.decay), **self.arguments(lr))


class SGD(Optimizer):
    class Config(Optimizer.Config, tag="sgd"):
        momentum: Rate = 0.9
        nesterov: bool = True
        decay: Decay = 0.0

        def build(self, parameters: Iterable[nn.Parameter], lr: float) -> torch.optim.Optimizer:
            nesterov = self.nesterov and self.momentum > 0
            return torch.optim.SGD(groups(parameters, self.decay), lr, momentum=self.momentum, nesterov=nesterov)


def groups(parameters: Iterable[nn.Parameter], decay: float) -> list[dict[str, Any]]:
    every = [p for p in parameters if p.requires_grad]
    matrices, vectors = [p for p in every if p.dim() > 1], [p for p in every if p.dim() <= 1]
    return [{"params": some, "weight_decay": rate} for some, rate in ((matrices, decay), (vectors, 0.0)) if some]


def dump(optimizer: torch.optim.Optimizer, model: nn.Module) -> dict[str, Tensor]:
    """The optimiser's state of each parameter, as `parameter:name`."""
    stored = {}
    for name, parameter in model.named_parameters():
        for key, value in optimizer.state.get(parameter, {}).items():
            if value is not None:
                stored[f"{name}:{key}"] = value if isinstance(value, Tensor) else torch.tensor(value)
    return stored


def load(
    optimizer: torch.optim.Optimizer,
    model: nn.Module,
    stored: Mapping[str, Tensor],
    world: World,
    origin: object = "checkpoint",
    *,
    stepped: bool = False,
) -> None:
    """Restore what `dump` gave, in this process's share, once all of it is checked.

    Fused kernels trust the shapes of their state: a tensor of another shape would write outside its memory. origin:
    named in messages. stepped: whether the optimiser has taken a step, so that it must have a state.
    """
    wrong = f"{origin}: its optimiser state is not that of the model"
    grouped = {id(p): group for group in optimizer.param_groups for p in group["params"]}
    parameters = {name: p for name, p in model.named_parameters() if id(p) in grouped}
    found: dict[str, dict[str, Tensor]] = {}
    for key, value in stored.items():
        name, _, what = key.rpartition(":")
        if name not in parameters:
            raise ValueError(f"{wrong} ({key} belongs to none of its parameters); {REMEDY}")
        found.setdefault(name, {})[what] = value
    if stepped and not found and any(_state_of(optimizer, p, grouped[id(p)]) for p in parameters.values()):
        raise ValueError(f"{wrong} (there is none after the first step); {REMEDY}")
    for name, state in found.items():
        parameter = parameters[name]
        check_tensors(state, _state_of(optimizer, parameter, grouped[id(parameter)]), f"{wrong}: {name}")
    for name, state in found.items():
        parameter = parameters[name]
        for what, value in state.items():
            own = world.share(value, parameter) if value.shape == parameter.shape else value.to(parameter.device)
            # A copy: tensors read from a file may lie where vector code takes another path, with other last bits.
            optimizer.state[parameter][what] = own.clone()


def _state_of(optimizer: torch.optim.Optimizer, parameter: Tensor, group: dict[str, Any]) -> dict[str, Tensor]:
    """Names, shapes and types of what an optimiser of any kind holds for a parameter, as meta tensors.

    Found by a step of a twin of the optimiser on a small parameter with as many axes; where a state is neither a number
    nor shaped like the parameter, on one of the same size.
    """
    small = _probe(optimizer, torch.Size([2] * parameter.dim()), parameter.dtype, group)
    if any(value.shape not in ((), (2,) * parameter.dim()) for value in small.values()):
        return {
            name: value.to("meta") for name, value in _probe(optimizer, parameter.shape, parameter.dtype, group).items()
        }
    like = torch.Size([2] * parameter.dim())
    shapes = {name: parameter.shape if value.shape == like else value.shape for name, value in small.items()}
    return {name: torch.empty(shapes[name], dtype=value.dtype, device="meta") for name, value in small.items()}


def _probe(
    optimizer: torch.optim.Optimizer, shape: torch.Size, dtype: torch.dtype, group: dict[str, Any]
) -> dict[str, Tensor]:
    weight = nn.Parameter(torch.zeros(shape, dtype=dtype))
    weight.grad = torch.zeros_like(weight)
    twin = copy.copy(optimizer)
    twin.param_groups, twin.state = [{**group, "params": [weight]}], defaultdict(dict)
    twin.step()
    held = twin.state[weight].items()
    return {
        name: value if isinstance(value, Tensor) else torch.tensor(value) for name, value in held if value is not None
    }
