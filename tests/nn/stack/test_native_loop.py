"""The Feedback loop in native code: it is its twin in values and gradients, and steps aside where somebody looks on."""

import logging

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from sublayer.native import library
from sublayer.nn.stack import native, planned
from sublayer.nn.stack.native import loop
from sublayer.nn.stack.unrolled import backward
from sublayer.testing import Case
from sublayer.testing.case import by_reference
from tests.nn.stack.test_feedback import BASE, VARIANTS

SMOOTH = {"f.activation": "gelu"}
"""Where relu has its kink, gradients jump with the last bit."""
ACTIVATIONS = {
    "relu": {"f.activation": "relu"},
    "gelu_tanh": {"f.activation": "gelu_tanh"},
    "swish": {"f.activation": "swish"},
    "sigmoid": {"f.activation": "sigmoid"},
    "linear": {"f.activation": "linear"},
    "gated relu": {"f": {"kind": "glu", "inner": 20, "activation": "relu", "bias": False}},
    "gated gelu": {"f": {"kind": "glu", "inner": 28, "activation": "gelu", "bias": True}},
    "gated": {"f": {"kind": "glu", "inner": 28, "activation": "sigmoid", "bias": False}},
}
LARGE = {"s.heads": 2, "s.head_dim": 24, "s.kv_heads": 1, "f.inner": 300}
"""Sizes that fill panels, or nearly."""


@pytest.fixture
def served(monkeypatch):
    """How often native code ran."""
    calls, forward = [0], native.forward

    def counting(*args):
        calls[0] += 1
        forward(*args)

    monkeypatch.setattr(native, "forward", counting)
    return calls


def results(trial, model):
    """Hidden vectors of a text read in segments, and the gradient of every weight."""
    h_BLD = trial.read_in_segments(model, trial.ids(), trial.cuts)
    wanted = torch.arange(h_BLD.numel(), dtype=torch.float64).sin().view_as(h_BLD).to(h_BLD.dtype)
    grads = torch.autograd.grad((h_BLD * wanted).sum(), list(model.parameters()), allow_unused=True)
    return [h_BLD.detach(), *(grad for grad in grads if grad is not None)]


def plainly(trial):
    """By the plain loop in double precision."""
    with by_reference():
        return results(trial, trial.model(torch.float64))


def assert_near(found, expected):
    for ours, theirs in zip(found, expected, strict=True):
        size = max(1.0, float(theirs.abs().max()))
        torch.testing.assert_close(ours.double() / size, theirs / size, atol=1e-5, rtol=0)


def assert_twins(trial):
    assert_near(results(trial, trial.model(torch.float32)), plainly(trial))


@pytest.mark.parametrize("changes", VARIANTS.values(), ids=VARIANTS)
def test_it_is_the_plain_loop(changes, served):
    own = {} if any(name.startswith("f") for name in changes) else SMOOTH
    assert_twins(Case(BASE.but({**own, **changes}), batch=3, cuts=(4, 7)))
    assert served[0] == 2


@pytest.mark.parametrize("changes", ACTIVATIONS.values(), ids=ACTIVATIONS)
def test_every_activation_and_its_slope(changes, served):
    assert_twins(Case(BASE.but(changes), batch=2, cuts=(5,)))
    assert served[0] == 1


@pytest.mark.parametrize(
    ("batch", "residual"), [(1, "pre_norm"), (3, "post_norm"), (16, "pre_norm"), (21, "pre_norm"), (21, "post_norm")]
)
def test_every_number_of_rows_and_threads(batch, residual, served, monkeypatch):
    """Threads share the features, or have rows of their own; and none of it changes a bit of what the loop gives.
    The threads of torch stay as they are: what it folds for the loop depends on them, on some processors."""
    trial = Case(BASE.but({**LARGE, **SMOOTH, "residual": residual}, dim=40), batch=batch, cuts=(3, 34))
    model, expected = trial.model(torch.float32), plainly(trial)
    found = []
    for count, apart in ((1, 1), (2, 1), (3, 1), (2, 99), (3, 99)):
        monkeypatch.setattr(loop, "worthwhile", lambda *_, count=count: count)
        monkeypatch.setattr(loop, "APART", apart)
        found.append(model(trial.ids())[0])
        first, second = (results(trial, model) for _ in range(2))
        assert_near(first, expected)
        assert all(torch.equal(one, other) for one, other in zip(first, second, strict=True))
    assert all(torch.equal(found[0], other) for other in found[1:])
    assert served[0] == 5 * 5


def test_padded_rows(served):
    """Rows of different lengths: what is padded is not seen."""
    trial = Case(BASE.but({**SMOOTH, "position": "rotary"}), batch=3)
    ids, valid_BL = trial.ids(length=8), torch.arange(8) >= torch.tensor([0, 3, 6])[:, None]

    def read(dtype):
        model = trial.model(dtype)
        h_BLD = model(ids, None, valid_BL)[0][valid_BL]
        return [h_BLD.detach(), *torch.autograd.grad(h_BLD.square().sum(), list(model.parameters()))]

    found = read(torch.float32)
    assert served[0] == 1
    with by_reference():
        expected = read(torch.float64)
    assert_near(found, expected)


def test_blocks_of_any_size(served, monkeypatch):
    monkeypatch.setattr(backward, "BLOCK", 4)
    assert_twins(Case(BASE.but(SMOOTH), batch=2, cuts=(3, 10)))
    assert served[0] == 2


def test_what_is_not_a_number_stays_so(served):
    trial = Case(BASE)
    model = trial.model(torch.float32)
    with torch.no_grad():
        model.stack.sublayers[0].part.query.weight[0, 0] = torch.nan
    assert model(trial.ids())[0][:, 1:].isnan().all()
    assert served[0]


@pytest.mark.parametrize("switched_off", [True, False])
def test_without_a_compiler_its_twin_takes_over(switched_off, served, monkeypatch, caplog):
    trial = Case(BASE.but(SMOOTH))
    expected = results(trial, trial.model(torch.float32))
    assert served[0] == len(trial.cuts) - 1  # a segment of one place goes by the plain loop
    if switched_off:
        monkeypatch.setenv(library.VARIABLE, "0")
    else:
        monkeypatch.setattr(library, "_load", broken)
    library.load.cache_clear()
    try:
        with caplog.at_level(logging.WARNING):
            found = results(trial, trial.model(torch.float32))
    finally:
        library.load.cache_clear()
    assert served[0] == len(trial.cuts) - 1
    told = ["the Feedback loop goes on without native code" in line for line in caplog.messages]
    assert sum(told) == (not switched_off)
    for ours, theirs in zip(found, expected, strict=True):
        torch.testing.assert_close(ours, theirs, atol=1e-4, rtol=1e-5)


def broken(*_):
    raise OSError("no compiler")


def test_it_steps_aside(served):
    trial = Case(BASE)
    trial.model(torch.float64)(trial.ids())
    with FlopCounterMode(display=False):
        trial.model(torch.float32)(trial.ids())
    assert served[0] == 0


@pytest.mark.parametrize("length", [2, 3, 4, 7, 9])
@pytest.mark.parametrize("name", ["weighted", "unshared", "rotary", "window", "a memory longer than the text"])
def test_what_is_read_in_pieces_is_what_the_model_says(name, length, monkeypatch):
    """Without a gradient: after a memory, and with padding."""
    monkeypatch.setattr(planned, "PIECE", 4)
    trial = Case(BASE.but(VARIANTS[name]))
    model, ids = trial.model(torch.float32), trial.ids()[:, :length]
    valid = torch.ones_like(ids, dtype=torch.bool)
    valid[0, : length // 3] = False

    def read():
        with torch.no_grad():
            first, state = model(ids)
            return first, model(ids, state)[0], model(ids, None, valid)[0][valid]

    pieces = []
    run = planned.run
    monkeypatch.setattr(planned, "run", lambda *args: pieces.append(1) or run(*args))
    fast = read()
    assert len(pieces) >= 2 * -(-length // 4)
    with by_reference():
        slow = read()
    for here, there in zip(fast, slow, strict=True):
        torch.testing.assert_close(here, there, rtol=1e-5, atol=1e-5)
