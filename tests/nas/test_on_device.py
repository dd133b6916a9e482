"""A search on this device: proxies scored a generation at a time, and what is too large never measured."""

import pytest

from sublayer import executors
from sublayer.data import DataConfig, prepare
from sublayer.measurement import Estimate
from sublayer.nas import SearchReporter, read, search
from sublayer.nas.on_device import LatencyStage
from sublayer.nas.spaces import fit

SMALL = {"dim": "16|32", "layout": "(sf)x1|(sf)x2", "f.inner": "32|64|128", "s.heads": 2, "vocab": 256}


class Counted(executors.Pool):
    """Tells how many tasks came together."""

    def __init__(self):
        self.sizes = []

    def run(self, function, tasks):
        tasks = list(tasks)
        self.sizes.append(len(tasks))
        return ((n, function(task)) for n, task in enumerate(tasks))


def test_a_proxy_is_an_objective_scored_a_generation_at_a_time(tmp_path, book):
    pool, text = Counted(), prepare(DataConfig.guess(str(book)))
    how = {"objectives": "params,grad_norm:max", "population": 5, "iterations": 1, "text": text, "pool": pool}
    result = search(read("gpt2", SMALL), tmp_path / "s", **how)
    assert pool.sizes == [5, 4]
    assert result.trials == 9
    assert all(one.values["grad_norm"] > 0 for one in result.front)
    assert search(read("gpt2", SMALL), tmp_path / "s", **how) == result
    assert sum(pool.sizes) == 9


def test_a_proxy_that_looks_at_a_text_needs_one(tmp_path):
    with pytest.raises(ValueError, match="grad_norm: this proxy reads a text; add --data FILE"):
        search(read("gpt2", SMALL), tmp_path / "s", objectives="params,grad_norm:max")
    assert not (tmp_path / "s").exists()


class FakePredictor:
    """A predictor that records what it is given."""

    def __init__(self):
        self.learned, self.calibrated = [], []

    def learn(self, configs, told):
        told(0, 1)
        self.learned += configs

    def calibrate(self, configs, told):
        self.calibrated += configs

    def predict(self, config):
        return Estimate(1.0, config.dim)

    def knows(self, configs):
        return False

    def await_quiet(self, seconds, on_wait):
        on_wait("others work")
        return "others work"


def test_what_is_too_large_is_never_measured(caplog):
    class Reporter(SearchReporter):
        def activity(self, text):
            said.append(text)

        def timed_phase(self, name, seconds):
            said.append((name, seconds))

        def phase(self, name, done, total):
            said.append((name, done, total))

    predictor, said = FakePredictor(), []
    stage = LatencyStage(predictor, {"params": 40_000}, Reporter())
    stage.prepare(read("gpt2", SMALL))
    stage.look_ahead([read("gpt2", SMALL).base.but(dim=32, layout="(sf)x9")])
    assert predictor.learned
    assert all(config.cost().params <= 40_000 for config in predictor.learned)
    assert 0 < len(predictor.calibrated) < len(predictor.learned)
    assert said[0] == ("drawing candidates", 0, 960)
    waiting = [("waiting for a quiet machine", 0.0), "others work"]
    assert said[960:] == [*waiting, *[("measuring sublayers on this device", 0, 1)] * 2]
    assert "others work, still so after 0 s: times are corrected, and measured again later" in caplog.text
    assert stage.figures(predictor.learned[0]) == {"latency": 1.0, "memory": predictor.learned[0].dim}


def test_another_text_is_another_search(tmp_path, book):
    how = {"objectives": "params,grad_norm:max", "population": 5, "iterations": 0}
    search(read("gpt2", SMALL), tmp_path / "s", text=prepare(DataConfig.guess(str(book))), **how)
    (tmp_path / "other.txt").write_text("Something else altogether. " * 400)
    other = prepare(DataConfig.guess(str(tmp_path / "other.txt")))
    with pytest.raises(ValueError, match="another search is there, with another text"):
        search(read("gpt2", SMALL), tmp_path / "s", text=other, **how)


def test_a_vocabulary_that_is_not_the_text_s_is_refused(book):
    text = prepare(DataConfig.guess(str(book)))
    assert fit(read("gpt2", {"dim": "16|32", "s.heads": 2}), text, {}).base.vocab == text.vocab
    with pytest.raises(ValueError, match="vocab=99: the text has 256 tokens; leave vocab out"):
        fit(read("gpt2", {"dim": "16|32", "s.heads": 2, "vocab": 99}), text, {"vocab": 99})


@pytest.mark.parametrize(("wrong", "said"), [({"train": -1}, "train=-1"), ({"seconds": 0.0}, "seconds=0")])
def test_numbers_that_cannot_be(tmp_path, wrong, said):
    with pytest.raises(ValueError, match=said):
        search(read("gpt2", SMALL), tmp_path / "s", **wrong)
