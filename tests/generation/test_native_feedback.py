"""The step in C on a Feedback stack: one memory that all layers read, against the model."""

import random

import pytest
import torch

import sublayer
from sublayer.generation import Sampling, beam_search, generate
from sublayer.generation.native import NativeReader
from sublayer.generation.reader import StateReader, read_prompts
from sublayer.generation.request import GenerationRequest
from sublayer.nn.stack.compose import Weighted
from sublayer.testing import Case, small
from tests.generation.models import side_by_side

SPAN = 5
BASE = small(sublayer.config("feedback")).but({"s.memory.length": SPAN})
VARIANTS = {
    "shared": {},
    "unshared": {"shared": False},
    "average": {"compose": "average"},
    "top": {"compose": "top"},
    "one layer": {"compose": {"kind": "layer", "layer": 1}},
    "the embedding": {"compose": {"kind": "layer", "layer": 0}},
    "recurrent": {"compose": "recurrent"},
    "recurrent, unshared": {"compose": "recurrent", "shared": False},
    "transformer": {"compose": "transformer", "shared": False},
    "post-norm": {"residual": "post_norm"},
    "post-norm, unshared": {"residual": "post_norm", "shared": False},
    "rms": {"residual": {"kind": "pre_norm", "norm": "rms"}},
    "biases": {"s.bias": True},
    "rotary": {"position": "rotary"},
    "rotary, unshared, post-norm": {"position": "rotary", "shared": False, "residual": "post_norm"},
    "no positions": {"position": "none"},
    "learned positions": {"position": {"kind": "learned", "limit": 96}},
    "sinusoidal": {"position": "sinusoidal"},
    "alibi": {"position": "alibi"},
    "relative_xl": {"position": "relative_xl"},
    "a vector for each distance": {"position": {"kind": "relative_key", "clip": 9}},
    "grouped heads": {"s.kv_heads": 2},
    "one head of keys": {"s.kv_heads": 1, "position": "rotary"},
    "odd sizes": {"s.head_dim": 7, "s.heads": 3, "f.inner": 13},
    "cache": {"s.memory": "cache"},
    "window": {"s.memory": "cache", "s.pattern": {"kind": "window", "size": 4}},
    "a window of one place": {"s.pattern": {"kind": "window", "size": 1}},
    "windows that widen": {"s.pattern": {"kind": "window", "size": 3}, "s.pattern.size": [3, 6]},
    "the paper's segments": {"s.memory.span": "paper"},
    "free layout": {"layout": "s(ff)x2 sf"},
    "gated units": {"f": {"kind": "glu", "inner": 24, "activation": "swish", "bias": True}},
    "a head that is more": {"head": {"kind": "mixture", "components": 2}},
}
SLOW = {
    "gates": {"residual": {"kind": "pre_norm", "add": "gru_gate"}},
    "rezero": {"residual": "rezero"},
    "shaw": {"position": "shaw"},
    "distances": {"position": "distance"},
    "relative_xl without end": {"position": "relative_xl", "s.memory": "cache"},
}


def built(changes):
    return Case(BASE.but(changes)).model(torch.float32)


def reader(model):
    with torch.inference_mode():
        return read_prompts(GenerationRequest.of(model, [[1, 2], [3]], 4), native=True)


@pytest.mark.parametrize("rows", [1, 9])
@pytest.mark.parametrize("changes", VARIANTS.values(), ids=VARIANTS)
def test_it_equals_the_model(changes, rows):
    """Far beyond the span, for few rows and many, whose prompts are as long as each other where there are few."""
    dice = random.Random(rows)
    prompts = [[dice.randrange(BASE.vocab) for _ in range(3 if rows == 1 else 1 + 4 * n % 9)] for n in range(rows)]
    side_by_side(built(changes), prompts, dice, steps=4 * SPAN)


@pytest.mark.parametrize("changes", SLOW.values(), ids=SLOW)
def test_what_it_has_no_twin_for_is_left_to_the_model(changes):
    assert isinstance(reader(built(changes)), StateReader)


class _Louder(Weighted):
    def forward(self, x):
        return [2 * one for one in super().forward(x)]


UNLIKE = {
    "a hook on a part": lambda m: m.stack.sublayers[0].part.register_forward_hook(lambda m, x, y: (2 * y[0], y[1])),
    "a hook on the memory": lambda m: m.stack.norm.register_forward_hook(lambda m, x, y: 2 * y),
    "a hook on what it is made of": lambda m: m.stack.compose.register_forward_hook(lambda m, x, y: [2 * y[0]]),
    "a composition of your own": lambda m: setattr(m.stack, "compose", _Louder(m.config.stack.compose, 2)),
    "float64": lambda m: m.double(),
}


@pytest.mark.parametrize("change", UNLIKE.values(), ids=UNLIKE)
def test_what_is_changed_afterwards_is_left_to_the_model(change):
    model = built({})
    assert isinstance(reader(model), NativeReader)
    change(model)
    assert isinstance(reader(model), StateReader)


def test_texts_are_the_same():
    """Greedy, drawn and by beams."""
    model, prompts = built({}), [[1, 2, 3], [4], list(range(9))]
    beams = [beam_search(model, prompts, tokens=20, native=native) for native in (True, False)]
    fast, slow = ([[text.ids for text in row] for row in rows] for rows in beams)
    assert fast == slow
    for how in ({}, {"sampling": Sampling(temperature=0.8, top_k=5), "seed": 3}):
        assert generate(model, prompts, tokens=40, **how) == generate(model, prompts, tokens=40, native=False, **how)
