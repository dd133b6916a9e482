"""Optimisers by name. Matrices decay, vectors (biases, norms' gains) do not."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any

import torch
from pydantic import Field
from torch import Tensor, nn

from sublayer.nn.config import Config, Positive, Rate
from sublayer.training.distribution import World
from sublayer.training.lamb import NvLamb

Decay = Annotated[float, Field(ge=0)]


class Optimizer:
    """Family of configs that build optimisers of PyTorch."""

    class Config(Config, family="optimizer"):
        def build(self, parameters: Iterable[nn.Parameter], lr: float) -> torch.optim.Optimizer:
            raise NotImplementedError


class Moments(Optimizer):
    """Abstract: those that keep two moments of each gradient."""

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
    """What the optimiser keeps of each parameter, by its name."""
    kept = {}
    for name, parameter in model.named_parameters():
        for key, value in optimizer.state.get(parameter, {}).items():
            if value is not None:
                kept[f"{name}:{key}"] = value if isinstance(value, Tensor) else torch.tensor(value)
    return kept


def load(optimizer: torch.optim.Optimizer, model: nn.Module, kept: dict[str, Tensor], world: World) -> None:
    """What `dump` gave, in this process's share."""
    parameters = dict(model.named_parameters())
    for key, value in kept.items():
        name, what = key.rsplit(":", 1)
        parameter = parameters[name]
        own = world.share(value, parameter) if value.shape == parameter.shape else value.to(parameter.device)
        # A copy: tensors read from a file may lie where vector code takes another path, with other last bits.
        optimizer.state[parameter][what] = own.clone()
