"""Where the fast loop of Feedback must give way, or take care: what it does not know, and what it holds."""

import gc
import weakref

import pytest
import torch
from torch import nn

from sublayer.nn.stack.unrolled.loop import Loop
from sublayer.testing import Case
from sublayer.testing.case import by_reference
from tests.nn.stack.test_feedback import BASE, counted, crossed

LAYER_DROP = {"residual": {"kind": "layer_drop", "rate": 0.5}}
UNLIKE = {
    "heads": {"shared": False, "position": "none", "s.heads": [2, 4]},
    "heads of one size": {"shared": False, "position": "none", "s.head_dim": 8, "s.heads": [2, 4]},
    "windows": {"s.pattern": {"kind": "window", "size": 3}, "s.pattern.size": [3, 6]},
    "biases": {"shared": False, "residual": "post_norm", "s.bias": [True, False]},
}


class Adapted(nn.Linear):
    """A matrix with something beside it, as adapters have."""

    def forward(self, x):
        return 1.5 * super().forward(x)


def assert_plain(model, read):
    with by_reference():
        expected = read(model)
    torch.testing.assert_close(read(model), expected)


@pytest.mark.parametrize(("sources", "texts"), [(1, 3), (3, 1)])
def test_every_row_has_its_source(sources, texts):
    trial = Case(crossed({}))
    model, source, ids = trial.model(), trial.ids(length=5, batch=sources) % 53, trial.ids(length=6, batch=texts)
    with pytest.raises(ValueError, match=f"as many rows as the source has, {sources}, got {texts}; repeat"):
        model(ids, model.start(source))


@pytest.mark.parametrize("dropped", [{}, LAYER_DROP], ids=["all", "some left out"])
@pytest.mark.parametrize("changes", UNLIKE.values(), ids=UNLIKE)
def test_attentions_that_differ(changes, dropped):
    trial = Case(BASE.but({"s.dropout": 0, "f.dropout": 0, **dropped, **changes}))
    model, ids = trial.model().train(), trial.ids()
    valid = torch.arange(ids.shape[1]) >= torch.tensor([0, 3])[:, None]

    def read(model, seed):
        torch.manual_seed(seed)
        return model(ids)[0], model(ids, None, valid)[0][valid]

    for seed in range(4 if dropped else 1):
        assert_plain(model, lambda model, seed=seed: read(model, seed))


@pytest.mark.parametrize("name", ["query", "output", "enter"])
def test_a_matrix_that_was_put_in_place_of_another_is_asked(name, monkeypatch):
    model, ids, served = Case(BASE).model(), Case(BASE).ids(), counted(monkeypatch)
    part = model.stack.sublayers[1 if name == "enter" else 0].part
    old = getattr(part, name)
    new = Adapted(old.in_features, old.out_features, bias=old.bias is not None).double()
    new.load_state_dict(old.state_dict())
    before = model(ids)[0]
    setattr(part, name, new)
    after = model(ids)[0]
    assert served[0] == 1
    assert not torch.allclose(before, after)


def test_a_state_of_another_precision_is_read():
    trial = Case(BASE.but({"s.memory": "cache"}))
    model, ids = trial.model(torch.float32), trial.ids()
    with torch.no_grad():
        with torch.autocast("cpu", torch.bfloat16):
            _, state = model(ids)
        _, exact = model(ids)
        found, expected = model(ids, state)[0], model(ids, exact)[0]
    torch.testing.assert_close(found, expected, rtol=0, atol=0.2 * float(expected.abs().max()))


def test_what_is_no_number_stays_so_under_a_mask():
    """In the twin, too."""
    trial = Case(crossed({}))
    model, source, ids = trial.model(), trial.ids(length=5) % 53, trial.ids(length=6)
    with torch.no_grad():
        model.decoder.sublayers[1].part.query.weight[0, 0] = torch.nan
    valid = torch.arange(5) < torch.tensor([3, 5])[:, None]
    assert model(ids, model.start(source, valid))[0].isnan().any(-1).all()


def test_torch_func_takes_the_plain_loop():
    trial = Case(BASE)
    model, ids = trial.model(), trial.ids()
    weights = dict(model.named_parameters())

    def loss(weights):
        return torch.func.functional_call(model, weights, (ids,))[0].square().mean()

    slopes = torch.func.grad(loss)(weights)
    expected = torch.autograd.grad(loss(weights), list(weights.values()))
    torch.testing.assert_close(list(slopes.values()), list(expected))


def test_no_rows_at_all():
    model = Case(BASE).model()
    assert model(torch.zeros(0, 5, dtype=torch.long))[0].shape == (0, 5, BASE.dim)


@pytest.fixture
def buffers(monkeypatch):
    """What each pass of the loop keeps of its places."""
    kept, begin = [], Loop.__init__

    def watched(self, *args):
        begin(self, *args)
        kept.append(weakref.ref(self.x_NTBD))

    monkeypatch.setattr(Loop, "__init__", watched)
    return kept


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=["twin", "native"])
def test_what_was_kept_is_let_go_with_the_way_back(dtype, buffers):
    """Also while somebody still holds the loss; and with the last of what it gave, if nobody went back."""
    trial = Case(BASE)
    model, ids = trial.model(dtype), trial.ids()
    h, state = model(ids)
    loss = model.head.loss(h.square(), ids)
    del h
    loss.backward()
    h, state = model(ids, state)
    gc.collect()
    assert [one() is not None for one in buffers] == [False, True]
    del h, state
    gc.collect()
    assert [one() is not None for one in buffers] == [False, False]
    assert loss.isfinite()


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=["twin", "native"])
def test_one_may_go_back_twice(dtype):
    trial = Case(BASE.but({"s.dropout": 0.3, "f.dropout": 0.3, "residual.dropout": 0.3}))
    model, ids = trial.model(dtype).train(), trial.ids()
    loss = model(ids)[0].square().sum()
    first = torch.autograd.grad(loss, list(model.parameters()), retain_graph=True)
    second = torch.autograd.grad(loss, list(model.parameters()))
    assert all(torch.equal(one, other) for one, other in zip(first, second, strict=True))


def test_writing_over_what_it_gave_is_told():
    trial = Case(BASE.but({"final_norm": "none"}))
    model, ids = trial.model(torch.float32), trial.ids()
    h, _ = model(ids)
    loss = h.square().sum()
    with torch.no_grad():
        h.zero_()
    with pytest.raises(RuntimeError, match="modified"):
        loss.backward()
