"""Compositions: what a Feedback memory is made of, one vector per token from the outputs of all layers.

Layer 0 is the embedding, layer l the output of the l-th repeat of the layout. Most compositions give one stream of
vectors that all layers read; some give each layer a stream of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import torch
from pydantic import NonNegativeInt
from torch import Tensor, nn

from sublayer.nn.config import Config


class Compose(nn.Module):
    """Abstract: x^0 … x^L of a token → the vectors that later tokens read."""

    class Config(Config, family="compose"):
        by_layer: ClassVar[bool] = False
        """Whether each layer reads a stream of its own."""

        def build(self, layers: int) -> Compose:
            return self.owner(self, layers)

        def params(self, layers: int) -> int:
            return 0

        def check(self, layers: int) -> None:
            """Raise ValueError where it cannot work with so many layers."""

    def __init__(self, config: Compose.Config, layers: int) -> None:
        super().__init__()

    def forward(self, x: Sequence[Tensor]) -> list[Tensor]:
        """One vector for all layers, or one for each."""
        return [mixed(weights, x) for weights in self.weights()]

    def weights(self) -> list[Tensor]:
        """For each stream, how much of x^0, x^1, … is in it; layers beyond the last weight are left out."""
        raise NotImplementedError


class Weighted(Compose):
    """m = Σ_l softmax(w)_l x^l, w learned (Fan et al. 2020, eq. 1)."""

    class Config(Compose.Config, tag="weighted"):
        def params(self, layers: int) -> int:
            return layers + 1

    def __init__(self, config: Weighted.Config, layers: int) -> None:
        super().__init__(config, layers)
        self.weight = nn.Parameter(torch.zeros(layers + 1))

    def weights(self) -> list[Tensor]:
        return [self.weight.softmax(0)]


class Fixed(Compose):
    """Abstract: weights that are not learned."""

    share: Tensor

    def __init__(self, config: Compose.Config, layers: int, share: Tensor) -> None:
        super().__init__(config, layers)
        self.register_buffer("share", share, persistent=False)

    def weights(self) -> list[Tensor]:
        return [self.share]


class Average(Fixed):
    """m = mean of x^0 … x^L (section 6.4)."""

    class Config(Compose.Config, tag="average"):
        pass

    def __init__(self, config: Average.Config, layers: int) -> None:
        super().__init__(config, layers, torch.full((layers + 1,), 1 / (layers + 1)))


class Top(Fixed):
    """m = x^L: the topmost layer alone (section 4.3.2)."""

    class Config(Compose.Config, tag="top"):
        pass

    def __init__(self, config: Top.Config, layers: int) -> None:
        super().__init__(config, layers, one_hot(layers, layers))


class Layer(Fixed):
    """m = x^k: one layer for all (section 6.4)."""

    class Config(Compose.Config, tag="layer"):
        layer: NonNegativeInt = 1
        """k; 0 is the embedding."""

        def check(self, layers: int) -> None:
            if self.layer > layers:
                raise ValueError(
                    f"compose.layer={self.layer}: the layout has {layers} layers (its top-level repeats); use 0 (the "
                    f"embedding) to {layers}"
                )

    def __init__(self, config: Layer.Config, layers: int) -> None:
        super().__init__(config, layers, one_hot(config.layer, layers))


class Recurrent(Compose):
    """m^l = Σ_{k ≤ l} softmax(w^l)_k x^k: layer l reads the lower layers and itself, none above (section 4.3.2)."""

    class Config(Compose.Config, tag="recurrent"):
        by_layer = True

        def params(self, layers: int) -> int:
            return sum(layer + 1 for layer in range(1, layers + 1))

    def __init__(self, config: Recurrent.Config, layers: int) -> None:
        super().__init__(config, layers)
        self.sizes = [layer + 1 for layer in range(1, layers + 1)]
        self.weight = nn.Parameter(torch.zeros(sum(self.sizes)))

    def weights(self) -> list[Tensor]:
        return [weight.softmax(0) for weight in self.weight.split(self.sizes)]


class Below(Compose):
    """m^l = x^{l−1}: each layer reads what entered it, which is the plain Transformer (section 3.1), token by token."""

    class Config(Compose.Config, tag="transformer"):
        by_layer = True

    share: Tensor

    def __init__(self, config: Below.Config, layers: int) -> None:
        super().__init__(config, layers)
        self.register_buffer("share", torch.eye(layers), persistent=False)

    def weights(self) -> list[Tensor]:
        return [self.share[layer, : layer + 1] for layer in range(len(self.share))]


def one_hot(layer: int, layers: int) -> Tensor:
    return torch.eye(layers + 1)[layer]


def mixed(weights: Tensor, x: Sequence[Tensor]) -> Tensor:
    """Σ_l w_l x^l."""
    total = weights[0] * x[0]
    for weight, one in zip(weights[1:], x[1:], strict=False):
        total = total + weight * one
    return total
