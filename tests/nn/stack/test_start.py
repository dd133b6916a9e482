"""Weights as they begin: how widely they are drawn."""

import pytest
import torch
from torch import nn

from sublayer.papers import registry


def deviations(model):
    """Of each linear map in the stack, times √inputs."""
    return {
        name: float(layer.weight.detach().std()) * layer.in_features**0.5
        for name, layer in model.stack.named_modules()
        if isinstance(layer, nn.Linear)
    }


@pytest.mark.parametrize("name", ["gpt2", "feedback", "feedback-tasks"])
def test_a_spread_by_width_makes_linear_maps_as_loud_as_what_they_read(name):
    config = registry.config(name).but({"s.heads": 4}, dim=64, layout="(sf)x2")
    torch.manual_seed(0)
    fixed = config.build()
    torch.manual_seed(0)
    wide = config.but(spread="width").build()
    for layer, found in deviations(wide).items():
        expected = 4**-0.5 if layer.endswith("output") else 1
        assert found == pytest.approx(expected, rel=0.1), layer
    for layer, found in deviations(fixed).items():
        inputs = wide.stack.get_submodule(layer).in_features
        assert found == pytest.approx(deviations(wide)[layer] * 0.02 * inputs**0.5, rel=1e-5), layer
    assert all(
        torch.equal(a, b) for a, b in zip(fixed.embedding.parameters(), wide.embedding.parameters(), strict=True)
    )
