"""What of a model is plain arrays: matrices and norms by address, as step.c takes them."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from sublayer.generation.native.form import Matrix
from sublayer.native.pointwise import NORMS, Norm
from sublayer.native.tensors import address, plain
from sublayer.nn.hooked import hooked
from sublayer.nn.residual import RMSNorm


class NotPlain(Exception):  # noqa: N818 (it is what it says)
    """What the native step has no twin for."""


FLOATS: dict[str, Any] = {"dtype": torch.float32, "device": torch.device("cpu")}
"""What step.c computes with, whatever the defaults of torch are."""


class Tensors:
    """Holds the tensors whose addresses it gives."""

    def __init__(self, dim: int) -> None:
        self.dim = dim
        self.held: list[Tensor] = []

    def linear(self, layer: nn.Module | None) -> Matrix:
        linear = expect(layer, nn.Linear)
        return self.matrix(linear.weight, linear.bias)

    def matrix(self, weight: Tensor, bias: Tensor | None) -> Matrix:
        return Matrix(*weight.shape, self.keep(weight), self.keep(bias))

    def norm(self, norm: nn.Module) -> Norm:
        expect(norm, nn.Identity, nn.LayerNorm, RMSNorm)
        if isinstance(norm, nn.Identity):
            return Norm(NORMS["none"])
        assert isinstance(norm, (nn.LayerNorm, RMSNorm))
        if norm.weight is None or norm.weight.shape != (self.dim,):
            raise NotPlain(f"{type(norm).__name__} without a gain for each of {self.dim} features")
        if isinstance(norm, RMSNorm):
            return Norm(NORMS["rms"], self.keep(norm.weight), None, norm.eps)
        return Norm(NORMS["layer"], self.keep(norm.weight), self.keep(norm.bias), norm.eps)

    def keep(self, tensor: Tensor | None) -> int | None:
        if tensor is None:
            return None
        self.held.append(expect_floats(tensor).detach().contiguous())
        return address(self.held[-1])


def expect(module: nn.Module | None, *kinds: type) -> Any:
    """The module, if it is of one of these very classes and nothing hangs on its calls."""
    if module is None or type(module) not in kinds or hooked(module):
        raise NotPlain(type(module).__name__)
    return module


def expect_floats(tensor: Tensor) -> Tensor:
    """The tensor, if it is an array of floats in memory."""
    if not plain(tensor):
        raise NotPlain(f"a tensor of {tensor.dtype} on {tensor.device}")
    return tensor
