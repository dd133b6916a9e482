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
    fixed = config.but(spread="fixed").build()
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


@pytest.mark.parametrize(("spread", "expected"), [("fixed", 0.02), ("unit", 1.0)])
def test_vectors_that_are_looked_up_start_as_widely_as_asked(spread, expected):
    config = registry.config("feedback").but(
        {"s.heads": 4, "embedding.spread": spread, "position.spread": spread}, dim=64
    )
    model = config.build()
    for vectors in (model.embedding.matrix, model.stack.position.key_RK):
        assert float(vectors.detach().std()) == pytest.approx(expected, rel=0.05)
    assert float(model.head.matrix.detach().std()) == pytest.approx(0.02, rel=0.05)


@pytest.mark.parametrize("compose", ["weighted", "top", "average"])
def test_a_feedback_memory_begins_as_the_tokens_it_is_of(compose):
    """Whatever it is made of: else what later layers make of a place hides which token stands there, and a memory of
    the top layer alone learns badly."""
    torch.manual_seed(0)
    changes = {"s.heads": 4, "compose": compose}
    model = registry.config("feedback").but(changes, dim=64, layout="(sf)x3").build().eval()
    ids = torch.randint(256, (4, 32))
    with torch.no_grad():
        _, state = model(ids)
        alike_BL = torch.cosine_similarity(model.embedding.read(ids), state.parts[0].x.last(None), dim=-1)
    assert float(alike_BL.mean()) > 0.7
