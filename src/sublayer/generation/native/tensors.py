"""Matrices and norms of a model by address, as step.c takes them."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from sublayer.generation.native.form import StepMatrix
from sublayer.native.pointwise import NORMS, NormStruct
from sublayer.native.tensors import address
from sublayer.nn.residual import RMSNorm

FLOATS: dict[str, Any] = {"dtype": torch.float32, "device": torch.device("cpu")}
"""What step.c computes with, whatever the defaults of torch are."""


class Tensors:
    """Gives addresses of tensors, and holds the tensors, so that the addresses stay valid."""

    def __init__(self) -> None:
        self.held: list[Tensor] = []

    def linear(self, layer: nn.Linear) -> StepMatrix:
        return self.matrix(layer.weight, layer.bias)

    def matrix(self, weight: Tensor, bias: Tensor | None) -> StepMatrix:
        return StepMatrix(*weight.shape, self.hold(weight), self.hold(bias))

    def norm(self, norm: Any) -> NormStruct:
        if isinstance(norm, nn.Identity):
            return NormStruct(NORMS["none"])
        if isinstance(norm, RMSNorm):
            return NormStruct(NORMS["rms"], self.hold(norm.weight), None, norm.eps)
        return NormStruct(NORMS["layer"], self.hold(norm.weight), self.hold(norm.bias), norm.eps)

    def hold(self, tensor: Tensor | None) -> int | None:
        if tensor is None:
            return None
        self.held.append(tensor.detach().contiguous())
        return address(self.held[-1])
