"""Ways to join a part's output y to the stream x: the sum, and the gates of GTrXL (Parisotto et al. 2019, section 3.2).

Each gate starts near the identity, g(x, y) ≈ x, by its bias.
"""

from __future__ import annotations

from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor, nn

from sublayer.nn.config import Config
from sublayer.nn.linear import linear


class Add(nn.Module):
    """(x, y) → the new stream."""

    matrices: ClassVar[tuple[str, ...]] = ()
    """The D×D matrices a gate owns, by name."""

    class Config(Config, family="add"):
        sums: ClassVar[bool] = False
        """Whether it is the plain sum."""

        def build(self, dim: int) -> Add:
            return self.owner(self, dim)

        def params(self, dim: int) -> int:
            return 0

        def flops(self, dim: int, length: int) -> int:
            return 2 * length * dim * dim * len(self.owner.matrices)

    def __init__(self, config: Add.Config, dim: int) -> None:
        super().__init__()
        for name in self.matrices:
            self.add_module(name, linear(dim, dim, bias=False))

    def forward(self, x: Float[Tensor, "B L D"], y: Float[Tensor, "B L D"]) -> Float[Tensor, "B L D"]:
        raise NotImplementedError


class Sum(Add):
    """x + y."""

    class Config(Add.Config, tag="sum"):
        sums = True

    def forward(self, x: Float[Tensor, "B L D"], y: Float[Tensor, "B L D"]) -> Float[Tensor, "B L D"]:
        return x + y


class Gate(Add):
    """Abstract: a gate with a bias vector that starts at `bias`, and a ReLU on y, as GTrXL has it before each gate."""

    class Config(Add.Config):
        bias: float = 2.0
        """Initial value of the gate's bias; larger is nearer to the identity."""

        def params(self, dim: int) -> int:
            return len(self.owner.matrices) * dim * dim + dim

    bias: nn.Parameter

    def __init__(self, config: Gate.Config, dim: int) -> None:
        super().__init__(config, dim)
        self.bias = nn.Parameter(torch.full((dim,), config.bias))

    def forward(self, x: Float[Tensor, "B L D"], y: Float[Tensor, "B L D"]) -> Float[Tensor, "B L D"]:
        return self.join(x, y.relu())

    def join(self, x: Tensor, y: Tensor) -> Tensor:
        raise NotImplementedError


class InputGate(Gate):
    """σ(W x + b)·x + y. Deviation: the paper has no bias here; with one it can start open."""

    matrices = ("gate",)
    gate: nn.Linear

    class Config(Gate.Config, tag="input_gate"):
        pass

    def join(self, x: Tensor, y: Tensor) -> Tensor:
        return torch.sigmoid(self.gate(x) + self.bias) * x + y


class OutputGate(Gate):
    """x + σ(W x − b)·y."""

    matrices = ("gate",)
    gate: nn.Linear

    class Config(Gate.Config, tag="output_gate"):
        pass

    def join(self, x: Tensor, y: Tensor) -> Tensor:
        return x + torch.sigmoid(self.gate(x) - self.bias) * y


class HighwayGate(Gate):
    """z·x + (1 − z)·y, z = σ(W x + b)."""

    matrices = ("gate",)
    gate: nn.Linear

    class Config(Gate.Config, tag="highway_gate"):
        pass

    def join(self, x: Tensor, y: Tensor) -> Tensor:
        return torch.lerp(y, x, torch.sigmoid(self.gate(x) + self.bias))


class SigmoidTanhGate(Gate):
    """x + σ(W y − b)·tanh(U y)."""

    matrices = ("gate", "update")
    gate: nn.Linear
    update: nn.Linear

    class Config(Gate.Config, tag="sigmoid_tanh_gate"):
        pass

    def join(self, x: Tensor, y: Tensor) -> Tensor:
        return x + torch.sigmoid(self.gate(y) - self.bias) * torch.tanh(self.update(y))


class GruGate(Gate):
    """(1 − z)·x + z·ĥ: r = σ(W_r y + U_r x), z = σ(W_z y + U_z x − b), ĥ = tanh(W_g y + U_g (r·x))."""

    matrices = ("w_r", "u_r", "w_z", "u_z", "w_g", "u_g")
    w_r: nn.Linear
    u_r: nn.Linear
    w_z: nn.Linear
    u_z: nn.Linear
    w_g: nn.Linear
    u_g: nn.Linear

    class Config(Gate.Config, tag="gru_gate"):
        pass

    def join(self, x: Tensor, y: Tensor) -> Tensor:
        r = torch.sigmoid(self.w_r(y) + self.u_r(x))
        z = torch.sigmoid(self.w_z(y) + self.u_z(x) - self.bias)
        new = torch.tanh(self.w_g(y) + self.u_g(r * x))
        return torch.lerp(x, new, z)
