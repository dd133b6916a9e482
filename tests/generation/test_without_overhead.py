"""A bare model is the same model."""

import pytest
import torch
from torch import nn

from sublayer.generation.without_overhead import without_overhead
from sublayer.nn.model import EncoderDecoder
from tests.generation.models import WRITERS, writer


@pytest.mark.parametrize("paper", WRITERS)
def test_it_computes_what_the_model_computes(paper):
    model = writer(paper, torch.float64)
    ids = torch.randint(61, (2, 7), generator=torch.Generator().manual_seed(0))
    h, after, scores = _read(model, ids)
    for steps in (False, True):
        torch.testing.assert_close(_read(without_overhead(model, steps=steps), ids), (h, after, scores))


@torch.no_grad()
def _read(model, ids):
    """Hidden vectors of a segment and of one more place, and scores."""
    state = model.start(torch.tensor([[1, 2], [3, 4]])) if isinstance(model, EncoderDecoder) else None
    h, state = model(ids, state)
    return h, model(ids[:, :1], state)[0], model.head(h)


def test_it_shares_the_weights_and_leaves_the_model_alone():
    model = writer("gpt2").train()
    before = {name: weight.data_ptr() for name, weight in model.named_parameters()}
    twin = without_overhead(model, steps=True)
    assert model.training
    assert not twin.training
    assert {name: weight.data_ptr() for name, weight in model.named_parameters()} == before
    assert twin.stack.sublayers[0].norm.weight is model.stack.sublayers[0].norm.weight
    assert twin.head.embedding is twin.embedding
    assert isinstance(twin, type(model))


def test_a_layer_put_in_place_of_another_is_called():
    class Loud(nn.Linear):
        def forward(self, x):
            return 2 * super().forward(x)

    model = writer("gpt2")
    part = model.stack.sublayers[1].part
    part.enter = Loud(32, 128).eval()
    ids = torch.tensor([[1, 2, 3]])
    with torch.no_grad():
        torch.testing.assert_close(without_overhead(model, steps=True)(ids)[0], model(ids)[0])


def test_hooks_stay():
    model, seen = writer("gpt2"), []
    model.stack.final_norm.register_forward_pre_hook(lambda module, inputs: seen.append(module))
    with torch.no_grad():
        without_overhead(model)(torch.tensor([[1, 2]]))
    assert len(seen) == 1


class Choir(nn.Module):
    """Calls modules that another one owns."""

    def __init__(self, singers):
        super().__init__()
        self.singers = nn.ModuleList(singers)
        self.solo = (self.singers[0], [1])  # a tuple is not registered
        object.__setattr__(self, "_leader", self.singers[1])

    def forward(self, x):
        return self._leader(self.solo[0](x))


def test_references_to_modules_are_followed_into_eval_mode():
    model = Choir([nn.Dropout(0.5), nn.Dropout(0.5)]).train()
    assert torch.equal(without_overhead(model)(torch.ones(64)), torch.ones(64))
    assert model.solo[0].training


def test_a_compiled_module_is_called_as_it_is():
    model = Choir([nn.Dropout(0.5), nn.Dropout(0.5)]).train()
    model._compiled_call_impl = pytest.fail  # what Module.compile sets
    assert torch.equal(without_overhead(model)(torch.ones(64)), torch.ones(64))
