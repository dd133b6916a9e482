"""Trainings that are shown by the files of their runs."""

import json

from sublayer.progress import Display, trainings
from sublayer.progress import display as module
from sublayer.training.config import TrainConfig


def test_shares_and_losses_of_runs(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "TICK", 1e6)
    shares = {"a": (0.0, 0.0), "b": (1.0, 2.0)}
    monkeypatch.setattr(trainings, "progress_of", lambda path: shares[path.name])
    with Display("starting") as display:
        trainings.watch(display, [(name, tmp_path / name) for name in shares])
        assert (display.done, display.total, display.status) == (1.0, 2, "1 of 2 runs done")
        shares["a"] = (0.25, 1.5)
        shares["b"] = (0.0, 0.0)  # the run was moved; it is done all the same
        display.tick()
        assert (display.done, display.status) == (1.25, "1 of 2 runs done, a: 25%, loss 1.500")


def test_progress_is_the_largest_share_of_a_budget(tmp_path):
    from sublayer.progress.trainings import _share

    train = TrainConfig(steps=100, tokens=1000).dump()
    assert _share(train, json.loads('{"step": 20, "tokens": 500}'), 7.0) == 0.5
