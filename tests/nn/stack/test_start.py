"""Weights as they begin: how widely they are drawn."""

import pytest
import torch
from torch import nn

from sublayer.nas.supernet.stack import over
from sublayer.nn.linear import widen
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


def test_a_supernet_starts_as_its_base_does():
    base = registry.config("gpt2").but({"s.heads": 4}, dim=64, layout="(sf)x2", spread="width")
    for layer, found in deviations(over(base, "sf").build()).items():
        assert found == pytest.approx(4**-0.5 if layer.endswith("output") else 1, rel=0.1), layer


def test_a_map_that_is_drawn_otherwise_stays_so():
    own = nn.Linear(64, 64)
    before = own.weight.detach().clone()
    widen(nn.Sequential(own))
    assert torch.equal(own.weight, before)
