"""What is peculiar to feed-forwards: each member of the families is the formula its name says."""

from contextlib import nullcontext

import pytest
import torch

from sublayer.nn import paths
from sublayer.nn.feedforward import ACTIVATIONS, Dense, Glu, fused
from sublayer.nn.part import Slot
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
    part = Dense.Config(inner=6, activation=name).build(Slot(4)).double()
    x = torch.randn(1, 5, 4, dtype=torch.float64)
    inner = PLAIN[name](x @ part.enter.weight.T + part.enter.bias)
    torch.testing.assert_close(part(x, SCENE)[0], inner @ part.output.weight.T + part.output.bias)


@pytest.mark.parametrize("name", PLAIN)
def test_glu(name):
    part = Glu.Config(inner=6, activation=name).build(Slot(4)).double()
    x = torch.randn(1, 5, 4, dtype=torch.float64)
    gate, up = part.enter.weight[:6], part.enter.weight[6:]
    torch.testing.assert_close(part(x, SCENE)[0], (PLAIN[name](x @ gate.T) * (x @ up.T)) @ part.output.weight.T)


def test_default_widths_follow_the_model():
    assert Dense.Config().width(24) == 96
    assert Glu.Config().width(24) == 64


@pytest.mark.parametrize("name", sorted(fused.SLOPES))
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("rows", [5, 1024])
@pytest.mark.parametrize("norm", [True, False])
def test_the_fused_path_equals_the_plain_one_in_values_and_gradients(name, bias, rows, norm, monkeypatch):
    monkeypatch.setattr(fused, "ROWS", rows)
    part = Dense.Config(inner=6, activation=name, bias=bias).build(Slot(4)).double()
    before = torch.nn.LayerNorm(4, bias=bias).double() if norm else torch.nn.Identity()
    weights = [*part.parameters(), *before.parameters()]
    for weight in weights:
        torch.nn.init.normal_(weight)
    x = torch.randn(3, 7, 4, dtype=torch.float64, requires_grad=True)
    results = []
    for fuse in (True, False):
        with nullcontext() if fuse else paths.by_slow_twins():
            y = part.forward_normed(before, x, SCENE)[0]
        assert ("FusedDense" in y.grad_fn.name()) == fuse
        results.append([y, *torch.autograd.grad(y.sin().sum(), [x, *weights])])
    for here, there in zip(*results, strict=True):
        torch.testing.assert_close(here, there, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", sorted(fused.SLOPES))
@pytest.mark.parametrize("norm", [True, False])
def test_the_fused_gradient_is_the_numerical_one(name, norm):
    shapes = ((3, 4), (4,), (4,), (6, 4), (6,), (4, 6), (4,))
    x, gain, shift, *weights = [torch.randn(*shape, dtype=torch.float64, requires_grad=True) for shape in shapes]
    if norm:
        first = x, gain, shift
        assert torch.autograd.gradcheck(
            lambda a, b, c, *w: fused.FusedDense.apply(a, b, c, 1e-5, *w, name), [*first, *weights]
        )
    else:
        assert torch.autograd.gradcheck(
            lambda a, *w: fused.FusedDense.apply(a, None, None, 0.0, *w, name), [x, *weights]
        )


@pytest.mark.parametrize("norm", [torch.nn.LayerNorm(16), torch.nn.Identity()])
def test_the_fused_path_keeps_one_tensor_less(norm):
    part = Dense.Config(inner=64, activation="gelu").build(Slot(16))
    x = torch.randn(1, 8, 16, requires_grad=True)

    def kept(run):
        found = {}
        with torch.autograd.graph.saved_tensors_hooks(
            lambda t: found.update({t.data_ptr(): t.numel()}) or t, lambda t: t
        ):
            run()
        weights = {weight.data_ptr() for weight in (*part.parameters(), *norm.parameters())}
        return sum(count for place, count in found.items() if place not in weights)

    plain = kept(lambda: part.output(torch.nn.functional.gelu(part.enter(norm(x)))))
    fewer = kept(lambda: part.forward_normed(norm, x, SCENE))
    assert plain - fewer == 8 * (16 if isinstance(norm, torch.nn.LayerNorm) else 64)


def test_the_fused_path_steps_aside():
    part = Dense.Config(inner=64, activation="gelu").build(Slot(16))
    x = torch.randn(1, 8, 16, requires_grad=True)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = part(x, SCENE)[0]
    assert y.dtype == torch.bfloat16
    y.sum().backward()
    assert x.grad is not None
    heard = []
    with part.register_forward_hook(lambda *_: heard.append("part")):
        part.forward_normed(torch.nn.LayerNorm(16), x, SCENE)
    with part.enter.register_forward_hook(lambda *_: heard.append("matrix")):
        part.forward_normed(torch.nn.LayerNorm(16), x, SCENE)
    assert heard == ["part", "matrix"]
    dropping = Dense.Config(inner=64, dropout=0.5).build(Slot(16))
    assert "FusedDense" not in dropping(x, SCENE)[0].grad_fn.name()
    assert "FusedDense" in dropping.eval()(x, SCENE)[0].grad_fn.name()
