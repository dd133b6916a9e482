"""The memory of training, measured in a process of its own."""

from types import SimpleNamespace

import pytest

from sublayer.comparison import compare, job
from sublayer.comparison.step_memory import step_memory
from tests.comparison.test_compare import CHANGES, ROTARY, reading
from tests.training import tiny

NUMBERS = 16
"""Bytes for each parameter: it, its gradient, two moments."""


def test_it_is_that_of_weights_gradients_and_moments_and_leaves_the_run_alone(book, tmp_path):
    run = tiny.train(book, tmp_path / "run", dim=64, f__inner=2**14, train__steps=1, train__threads=1)
    before, params = tiny.files(run.path), run.model_config.cost().params
    assert params > 4e6
    found = step_memory(run)
    assert found is not None
    assert NUMBERS * params <= found <= 2.5 * NUMBERS * params
    assert tiny.files(run.path) == before


@pytest.fixture
def counted(monkeypatch):
    """Measurements replaced; the runs whose training is measured."""
    runs = []
    monkeypatch.setattr(job, "race", lambda models, setting, **how: SimpleNamespace(readings=reading(models, setting)))
    monkeypatch.setattr(job, "step_memory", lambda run, plugins: runs.append(run.path.name) or 5000 + len(runs))
    return runs


def test_each_variant_is_measured_once(counted, book, tmp_path):
    asked = {**CHANGES, "train.steps": 1}
    for _ in range(2):
        table = compare(["gpt2", ROTARY], str(book), tmp_path / "out", asked, seeds=(3, 4))
        assert [row.step_memory for row in table.rows] == [5001, 5002]
    assert counted == ["gpt2-3", "position=rotary-3"]
    again = compare(["gpt2", ROTARY], str(book), tmp_path / "out", asked, seeds=(3, 4), measure=None)
    assert [row.step_memory for row in again.rows] == [None, None]


def test_a_training_that_cannot_be_measured_costs_only_that_figure(counted, book, tmp_path, monkeypatch, caplog):
    def fails(run, plugins):
        raise ValueError("it died")

    monkeypatch.setattr(job, "step_memory", fails)
    asked = {**CHANGES, "train.steps": 1}
    table = compare(["gpt2", ROTARY], str(book), tmp_path / "out", asked, seeds=(0,))
    assert [row.step_memory for row in table.rows] == [None, None]
    assert all(row.memory for row in table.rows)
    assert "gpt2: the memory of training was not measured: it died" in caplog.text
