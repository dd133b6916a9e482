"""What is peculiar to feed-forwards: each member of the families is the formula its name says."""

import pytest
import torch

from sublayer.nn.feedforward import ACTIVATIONS, Dense, Glu
from sublayer.nn.part import Place
from sublayer.nn.scene import Scene

SCENE = Scene(torch.arange(5)[None])
PLAIN = {
    "relu": lambda x: x.clamp(min=0),
    "gelu": lambda x: x * 0.5 * (1 + torch.erf(x / 2**0.5)),
    "gelu_tanh": lambda x: 0.5 * x * (1 + torch.tanh((2 / torch.pi) ** 0.5 * (x + 0.044715 * x**3))),
    "swish": lambda x: x * torch.sigmoid(x),
    "elu": lambda x: torch.where(x > 0, x, x.exp() - 1),
    "selu": lambda x: 1.0507009873554805 * torch.where(x > 0, x, 1.6732632423543772 * (x.exp() - 1)),
    "sigmoid": lambda x: 1 / (1 + (-x).exp()),
    "softplus": lambda x: (1 + x.exp()).log(),
    "linear": lambda x: x,
}


def test_every_activation_has_its_formula_here():
    assert PLAIN.keys() == ACTIVATIONS.keys()


@pytest.mark.parametrize("name", PLAIN)
def test_dense(name):
    part = Dense.Config(inner=6, activation=name).build(Place(4)).double()
    x = torch.randn(1, 5, 4, dtype=torch.float64)
    inner = PLAIN[name](x @ part.enter.weight.T + part.enter.bias)
    torch.testing.assert_close(part(x, SCENE)[0], inner @ part.output.weight.T + part.output.bias)


@pytest.mark.parametrize("name", PLAIN)
def test_glu(name):
    part = Glu.Config(inner=6, activation=name).build(Place(4)).double()
    x = torch.randn(1, 5, 4, dtype=torch.float64)
    gate, up = part.enter.weight[:6], part.enter.weight[6:]
    torch.testing.assert_close(part(x, SCENE)[0], (PLAIN[name](x @ gate.T) * (x @ up.T)) @ part.output.weight.T)


def test_default_widths_follow_the_model():
    assert Dense.Config().width(24) == 96
    assert Glu.Config().width(24) == 64
