"""Dropout in the fast loop of Feedback: with the same things left out, it is the plain loop with PyTorch's dropout."""

from collections.abc import Iterator

import pytest
import torch
from torch.nn import functional as F

import sublayer
from sublayer.nn.attention import reference
from sublayer.nn.stack import native
from sublayer.nn.stack.unrolled import dropout
from sublayer.testing import Case, small
from sublayer.testing.case import by_reference
from tests.nn.stack.test_feedback import BASE, VARIANTS, counted, crossed
from tests.nn.stack.test_native_loop import results

RATES = {
    "attention": {"s.dropout": 0.3},
    "activations": {"f.dropout": 0.4},
    "sublayers": {"residual.dropout": 0.2},
    "all": {"s.dropout": 0.3, "f.dropout": 0.4, "residual.dropout": 0.2},
}
NONE = {"s.dropout": 0.0, "f.dropout": 0.0, "residual.dropout": 0.0, "embedding.dropout": 0.0}
SOURCE = 5
"""Places of a trial's source; no segment has so many keys."""
CASES = [
    *(("weighted", rates) for rates in RATES),
    *((name, "all") for name in VARIANTS if name != "weighted"),
]


def training(name, rates, dtype):
    changes = VARIANTS[name]
    smooth = {} if any(key.startswith("f") for key in changes) else {"f.activation": "gelu"}
    trial = Case(BASE.but({**smooth, **changes, **NONE}).but(RATES[rates]), batch=3, cuts=(4, 6))
    return trial, trial.model(dtype).train()


def noted(monkeypatch):
    """What the fast loop draws: for each segment, (rate, mask) of one sublayer after another."""
    drawn, draw = [], dropout.draw_mask

    def draw_mask(shape, rate, like):
        drawn.append((rate, draw(shape, rate, like)))
        return drawn[-1][1]

    monkeypatch.setattr(dropout, "draw_mask", draw_mask)
    return drawn


def replayed(trial, drawn, masks_each) -> Iterator[tuple[float, torch.Tensor]]:
    """The masks as the plain loop asks for them: place after place."""
    for segment, length in enumerate(trial.cuts):
        here = drawn[segment * masks_each : (segment + 1) * masks_each]
        for t in range(length):
            for rate, mask in here:
                if mask.dim() == 3:
                    yield rate, mask[t][:, None]
                    continue
                earlier = mask.shape[3] - length + t  # keys of the memory and of places before this one
                seen = SOURCE if mask.shape[3] == SOURCE else earlier
                if seen:
                    yield rate, mask[t].reshape(trial.batch, -1, mask.shape[3])[:, :, None, :seen]


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=["twin", "native"])
@pytest.mark.parametrize(("name", "rates"), CASES, ids=[f"{name}, {rates}" for name, rates in CASES])
def test_it_leaves_out_as_the_plain_loop_does(name, rates, dtype, monkeypatch):
    assert_alike(*training(name, rates, dtype), monkeypatch)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=["twin", "native"])
def test_weights_on_a_source_are_left_out_alike(dtype, monkeypatch):
    parts = {"alphabet.c.dropout": 0.3, "alphabet.f.activation": "gelu"}
    config = crossed({"residual": "pre_norm", "residual.dropout": 0.2, **parts}).but({"embedding.dropout": 0.0})
    trial = Case(config, batch=3, cuts=(4, 6))
    model = trial.model(dtype).train()
    model.encoder.eval()

    def attend(q_BHLK, k_BHSK, v_BHSK, sight, position, scene, table=None, dropout=0.0, span=None):
        weights_BHLS = (q_BHLK * q_BHLK.shape[-1] ** -0.5 @ k_BHSK.transpose(-1, -2)).softmax(-1)
        return F.dropout(weights_BHLS, dropout) @ v_BHSK

    monkeypatch.setattr(reference, "attend", attend)
    assert_alike(trial, model, monkeypatch)


def assert_alike(trial, model, monkeypatch):
    """As the plain loop in double precision; in single precision, no further from it than that loop itself may be."""
    dtype = next(model.parameters()).dtype
    drawn, served = noted(monkeypatch), counted(monkeypatch)
    found = results(trial, model)
    assert served[0] == len(trial.cuts)
    plain = plainly(trial, model, drawn, monkeypatch)
    expected = plainly(trial, model.double(), drawn, monkeypatch)
    for ours, theirs, exact in zip(found, plain, expected, strict=True):
        size = max(1.0, float(exact.abs().max()))
        tolerance = 1e-10 if dtype == torch.float64 else max(1e-5, 4 * float((theirs - exact).abs().max()) / size)
        torch.testing.assert_close(ours.double() / size, exact / size, atol=tolerance, rtol=0)


def plainly(trial, model, drawn, monkeypatch):
    """Results of the plain loop, in the model's own precision, which leaves out what was drawn."""
    asked = replayed(trial, drawn, len(drawn) // len(trial.cuts))

    def leave_out(x, p=0.5, training=True, inplace=False):
        if not training or not p:
            return x
        rate, mask = next(asked)
        assert p == rate
        return x * mask[..., -x.shape[-1] :] * dropout.scale(rate)

    with monkeypatch.context() as patch, by_reference():
        patch.setattr(F, "dropout", leave_out)
        found = results(trial, model)
    assert next(asked, None) is None
    return found


@pytest.mark.parametrize("rate", [0.1, 0.5, 0.9])
def test_as_much_is_left_out_as_was_asked(rate):
    torch.manual_seed(0)
    left = dropout.draw_mask((400, 1001), rate, torch.empty(0)).double().mean()
    assert left == pytest.approx(1 - rate, abs=4 * (rate * (1 - rate) / 400_400) ** 0.5)
    assert dropout.scale(rate) == pytest.approx(1 / (1 - rate), rel=1e-3)


def test_places_rows_and_features_are_drawn_apart():
    torch.manual_seed(0)
    stay = dropout.draw_mask((64, 64, 64), 0.5, torch.empty(0)).float()
    for dim in range(3):
        spread = stay.mean(dim).std()
        assert spread == pytest.approx(0.5 / 8, rel=0.1)


def test_a_seed_decides_what_is_left_out():
    _, model = training("weighted", "all", torch.float32)
    ids, found = Case(BASE).ids(), []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        found.append(model(ids)[0])
    assert torch.equal(found[0], found[1])
    assert not torch.equal(found[0], found[2])
    assert torch.equal(model.eval()(ids)[0], model(ids)[0])


def test_the_paper_trains_by_the_fast_loop_as_it_is(monkeypatch):
    """Its own dropout included; in C, where there is a compiler."""
    config = small(sublayer.config("feedback-tasks", {"s.dropout": 0.2, "f.dropout": 0.2}))
    calls, forward = [0], native.forward

    def counting(loop):
        calls[0] += 1
        forward(loop)

    monkeypatch.setattr(native, "forward", counting)
    model, ids = config.build().train(), Case(config).ids()
    model.head.loss(model(ids)[0], ids).backward()
    assert calls[0] == 1
