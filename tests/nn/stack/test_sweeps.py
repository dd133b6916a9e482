"""Sweeps: exact where they come to rest, and left to the loop where they do not."""

import pytest
import torch

from sublayer.nn.stack import native, sweeps
from sublayer.testing import Case
from tests.covering import cover
from tests.nn.stack.test_feedback import BASE, SLOW, VARIANTS

ALL = {**VARIANTS, **SLOW}


@pytest.fixture(autouse=True)
def _without_a_compiler(monkeypatch):
    """Where the loop runs in C, nothing is left to sweeps."""
    monkeypatch.setattr(native, "runs", lambda x: False)


def both(config, dtype, monkeypatch):
    """Two segments by sweeps and by the loop, and how often sweeps were tried and came to rest."""
    tried, converge = [], sweeps.converge

    def noting(*given):
        found = converge(*given)
        tried.append(found is not None)
        return found

    trial = Case(config)
    model, first, second = trial.model(dtype), trial.ids(), trial.ids(key=3)
    monkeypatch.setattr(sweeps, "converge", noting)
    outputs = []
    for length in (4, 10**6):
        monkeypatch.setattr(sweeps, "LENGTH", length)
        with torch.no_grad():
            one, state = model(first)
            outputs.append((one, model(second, state)[0]))
    return outputs, tried


@cover("changes, dtype", ALL, [torch.float64, torch.float32])
def test_they_come_to_what_the_loop_gives(changes, dtype, monkeypatch):
    tolerance = 1e-12 if dtype == torch.float64 else 1e-5
    (swept, looped), tried = both(BASE.but(changes), dtype, monkeypatch)
    for here, there in zip(swept, looped, strict=True):
        torch.testing.assert_close(here, there, rtol=0, atol=tolerance)
    assert any(tried)


@pytest.mark.parametrize(
    ("most", "names"),
    [
        (24, list(ALL)[::4]),
        pytest.param(24, ALL, marks=pytest.mark.stress, id="all"),
        (3, ("weighted", "recurrent", "window", "shaw")),
    ],
)
def test_pieces_come_to_what_the_loop_gives(most, names, monkeypatch):
    """The first and last pieces by sweeps, or by the loop from the first on that does not come to rest."""
    monkeypatch.setattr(sweeps, "PIECE", 5)
    monkeypatch.setattr(sweeps, "MOST", most)
    for changes in map(ALL.get, names):
        (swept, looped), _ = both(BASE.but(changes), torch.float64, monkeypatch)
        for here, there in zip(swept, looped, strict=True):
            torch.testing.assert_close(here, there, rtol=0, atol=1e-12)


def test_a_last_piece_of_one_place_goes_by_the_loop(monkeypatch):
    monkeypatch.setattr(sweeps, "LENGTH", 4)
    model, ids = BASE.build().eval(), Case(BASE).ids(length=13, batch=1)
    with torch.no_grad():
        for piece in (4, 6):
            monkeypatch.setattr(sweeps, "PIECE", piece)
            swept = model(ids)[0]
            monkeypatch.setattr(sweeps, "ROWS", 0)
            torch.testing.assert_close(swept, model(ids)[0], rtol=0, atol=1e-5)
            monkeypatch.setattr(sweeps, "ROWS", 4)


def test_a_memory_that_does_not_come_to_rest_is_read_by_the_loop(monkeypatch):
    monkeypatch.setattr(sweeps, "MOST", 2)
    (swept, looped), tried = both(BASE, torch.float64, monkeypatch)
    assert tried == [False, False]
    assert all(torch.equal(here, there) for here, there in zip(swept, looped, strict=True))


def test_after_as_many_sweeps_as_places_nothing_is_left_to_change(monkeypatch):
    """Whatever the guess: each sweep settles one more place."""
    monkeypatch.setattr(sweeps, "MOST", Case(BASE).length + 1)
    _, tried = both(BASE, torch.float64, monkeypatch)
    assert tried == [True, True]


def test_they_are_not_for_training_nor_for_padding():
    model, ids = BASE.build(), Case(BASE).ids(length=40, batch=1)
    scenes = []
    model.stack.register_forward_pre_hook(lambda stack, given: scenes.append(given))
    model.eval()
    model(ids)
    model(ids, None, torch.ones_like(ids, dtype=torch.bool))
    assert not sweeps.serves(model.stack, [], *scenes[0][:2])
    with torch.no_grad():
        assert sweeps.serves(model.stack, [], *scenes[0][:2])
        assert not sweeps.serves(model.stack, [], *scenes[1][:2])
        assert not sweeps.serves(model.train().stack, [], *scenes[0][:2])
