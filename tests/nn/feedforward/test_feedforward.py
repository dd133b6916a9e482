"""What is peculiar to feed-forwards: each member of the families is the formula its name says."""

import pytest
import torch

from sublayer.nn.feedforward import ACTIVATIONS, Dense, Glu, fused
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


@pytest.mark.parametrize("name", sorted(fused.SLOPES))
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("rows", [5, 1024])
def test_the_fused_path_equals_the_plain_one_in_values_and_gradients(name, bias, rows, monkeypatch):
    monkeypatch.setattr(fused, "ROWS", rows)
    part = Dense.Config(inner=6, activation=name, bias=bias).build(Place(4)).double()
    for weight in part.parameters():
        torch.nn.init.normal_(weight)
    x = torch.randn(3, 7, 4, dtype=torch.float64, requires_grad=True)
    results = []
    for fuse in (True, False):
        if not fuse:
            monkeypatch.setattr(fused, "serves", lambda x, activation: False)
        y = part(x, SCENE)[0]
        results.append([y, *torch.autograd.grad(y.sin().sum(), [x, *part.parameters()])])
    for here, there in zip(*results, strict=True):
        torch.testing.assert_close(here, there, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", sorted(fused.SLOPES))
def test_the_fused_gradient_is_the_numerical_one(name):
    shapes = ((3, 4), (6, 4), (6,), (4, 6), (4,))
    weights = [torch.randn(*shape, dtype=torch.float64, requires_grad=True) for shape in shapes]
    assert torch.autograd.gradcheck(lambda *w: fused.FusedDense.apply(*w, name), weights)


def test_the_fused_path_keeps_a_third_less_and_steps_aside():
    part = Dense.Config(inner=64, activation="gelu").build(Place(16))
    x = torch.randn(1, 8, 16, requires_grad=True)
    kept = []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: kept.append(t) or t, lambda t: t):
        part(x, SCENE)
    assert sum(t.shape == (8, 64) for t in kept) == 1
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = part(x, SCENE)[0]
    assert y.dtype == torch.bfloat16
    y.sum().backward()
    assert x.grad is not None
    dropping = Dense.Config(inner=64, dropout=0.5).build(Place(16))
    assert not dropping.fuses
    assert dropping.eval().fuses
