"""A norm and a matrix in one: as the two, and what is kept for backward."""

import pytest
import torch
from torch import nn

from sublayer.nn.normed_linear import NormedLinear, fuses, normed_linear


@pytest.mark.parametrize("bias", [True, False])
def test_it_equals_the_two_in_values_and_gradients(bias):
    norm, layer = nn.LayerNorm(5, bias=bias).double(), nn.Linear(5, 7, bias=bias).double()
    weights = [*norm.parameters(), *layer.parameters()]
    for weight in weights:
        nn.init.normal_(weight)
    x = torch.randn(2, 3, 5, dtype=torch.float64, requires_grad=True)
    both = normed_linear(norm, layer, x), layer(norm(x))
    results = [[y, *torch.autograd.grad(y.sin().sum(), [x, *weights])] for y in both]
    for here, there in zip(*results, strict=True):
        torch.testing.assert_close(here, there, rtol=1e-12, atol=1e-12)


def test_its_gradient_is_the_numerical_one():
    x, gain, shift, weight, bias = (
        torch.randn(*shape, dtype=torch.float64, requires_grad=True) for shape in ((3, 4), (4,), (4,), (6, 4), (6,))
    )
    assert torch.autograd.gradcheck(
        lambda x, g, s, w, b: NormedLinear.apply(x, g, s, 1e-5, w, b), [x, gain, shift, weight, bias]
    )


def test_it_steps_aside():
    norm, layer, x = nn.LayerNorm(4), nn.Linear(4, 4), torch.zeros(1, 1, 4)
    assert fuses(norm, layer, x)
    assert not fuses(nn.RMSNorm(4), layer, x)
    assert not fuses(nn.LayerNorm(4, elementwise_affine=False), layer, x)
    with torch.no_grad():
        assert not fuses(norm, layer, x)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert not fuses(norm, layer, x)
    with layer.register_forward_hook(lambda *_: None):
        assert not fuses(norm, layer, x)
