"""Searches: what they find, when they stop, and that a stopped one goes on to the same bits."""

import json
from pathlib import Path

import pytest

from sublayer.executors import trainings
from sublayer.nas.supernet import SearchConfig, over, search
from sublayer.nas.supernet.records import SupernetFigures
from sublayer.nas.supernet.searcher import Searcher
from sublayer.runs import Run
from sublayer.training import DivergedError
from tests.nas.supernet import small
from tests.training.killing import live

TOLD = ("clock.jsonl", "environment.json", ".lock")


def files(folder: Path) -> dict[str, bytes]:
    """Every file but those that tell of time and machine."""
    found = {path.relative_to(folder).as_posix(): path for path in sorted(folder.rglob("*")) if path.is_file()}
    return {name: path.read_bytes() for name, path in found.items() if path.name not in TOLD}


def result(folder: Path, seed: int = 0) -> dict:
    return json.loads((folder / "searches" / str(seed) / "result.json").read_text())


# What is found


@pytest.mark.parametrize("paths", ["all", "one"])
def test_a_price_that_outweighs_all_leaves_nothing(book, tmp_path, paths):
    priced = {"latency_weight": 1000.0, "latencies": {"s": 1.0, "f": 1.0}}
    shown = small.run(book, tmp_path / "out", paths=paths, lr=0.1, steps=40, **priced)
    assert shown.figure2.points[0].word == "----"
    assert shown.figure2.points[0].layout is None


def test_a_price_on_one_letter_leaves_the_other(book, tmp_path):
    priced = {"latency_weight": 1000.0, "latencies": {"s": 1.0, "f": 0.0}}
    shown = small.run(book, tmp_path / "out", letters="sf", lr=0.1, steps=40, **priced)
    assert shown.figure2.points[0].word == "ffff"


def test_it_stops_when_the_word_stands(book, tmp_path):
    priced = {"latency_weight": 1000.0, "latencies": {"s": 1.0, "f": 0.0}}
    small.run(book, tmp_path / "out", letters="sf", warmup=0.0, round=2, steps=40, **priced)
    found = result(tmp_path / "out")
    assert found["settled"]
    assert (found["changed"], found["tuned"], found["steps"]) == (1, 16, 32)


def test_the_architecture_does_not_change_in_the_warm_up(book, tmp_path):
    small.run(book, tmp_path / "out", warmup=0.5, round=2, log_every=1)
    lines = list(Run(tmp_path / "out" / "searches" / "0").metrics)
    assert [line["entropy"] for line in lines[:11]] == pytest.approx([1.0] * 11, abs=1e-12)
    assert lines[11]["entropy"] < 1 - 1e-7
    assert lines[-1]["tuned"] == 5


def test_phases_move_what_is_theirs(book, tmp_path, monkeypatch):
    """Weights and architecture never move in the same step, and each reads its own text."""
    moved = []
    step = Searcher.take_step

    def watched(self):
        before = {name: parameter.detach().clone() for name, parameter in self.model.named_parameters()}
        cursors = {role: trainee.batches.cursor for role, trainee in self.trainees.items()}
        role, *rest = step(self)
        changed = {name for name, parameter in self.model.named_parameters() if not parameter.equal(before[name])}
        read = {role for role, trainee in self.trainees.items() if trainee.batches.cursor != cursors[role]}
        moved.append((role, "stack.preference_NC" in changed, len(changed) > 1, read))
        return role, *rest

    monkeypatch.setattr(Searcher, "take_step", watched)
    small.run(book, tmp_path / "out", "transformer-xl")
    assert {role for role, *_ in moved} == {"weights", "architecture"}
    for role, architecture, weights, read in moved:
        assert (architecture, weights, read) == (role == "architecture", role == "weights", {role})


def test_texts_are_held_apart(book, tmp_path, monkeypatch):
    seen = {}
    make = Searcher.make.__func__

    def watched(cls, *args):
        made = make(cls, *args)
        seen.update({role: trainee.batches.ids for role, trainee in made.trainees.items()})
        return made

    monkeypatch.setattr(Searcher, "make", classmethod(watched))
    small.run(book, tmp_path / "out")
    weights, architecture = seen["weights"], seen["architecture"]
    assert len(architecture) / (len(weights) + len(architecture)) == pytest.approx(0.2, abs=0.01)
    assert weights.__array_interface__["data"][0] + weights.nbytes == architecture.__array_interface__["data"][0]


# Stopped and gone on with


@pytest.mark.parametrize(("paper", "paths"), [("transformer-xl", "all"), ("gpt2", "one")])
def test_a_stopped_search_goes_on_to_the_same_bits(book, tmp_path, monkeypatch, paper, paths):
    asked = {"paths": paths, "seeds": (0, 1), "steps": 12}
    small.run(book, tmp_path / "whole", paper, **asked)
    step = Searcher.take_step
    for at in (3, 9, 17):
        taken = iter(range(99))

        def stop(self, at=at, taken=taken):
            if next(taken) == at:
                raise KeyboardInterrupt
            return step(self)

        with monkeypatch.context() as patch:
            patch.setattr(Searcher, "take_step", stop)
            with pytest.raises(KeyboardInterrupt):
                small.run(book, tmp_path / "out", paper, **asked)
    small.run(book, tmp_path / "out", paper, **asked)
    assert files(tmp_path / "out") == files(tmp_path / "whole")


@pytest.mark.parametrize("event", [5, 25, 60])
def test_a_killed_search_goes_on_to_the_same_bits(book, tmp_path, event):
    asked = {"steps": 10, "retrained": True, "par": (2,)}
    small.run(book, tmp_path / "whole", **asked)
    assert live(lambda: small.run(book, tmp_path / "out", **asked), tmp_path / "out", event=event) is None
    small.run(book, tmp_path / "out", **asked)
    assert files(tmp_path / "out") == files(tmp_path / "whole")


def test_what_has_ended_is_not_repeated(book, tmp_path, monkeypatch):
    asked = {"retrained": True, "par": (2,), "steps": 10}
    first = small.run(book, tmp_path / "out", **asked)
    before = files(tmp_path / "out")
    with monkeypatch.context() as patch:
        patch.setattr(Searcher, "make", None)
        patch.setattr("sublayer.executors.trainings.resume", None)
        assert small.run(book, tmp_path / "out", **asked) == first
    assert files(tmp_path / "out") == before
    more = small.run(book, tmp_path / "out", **{**asked, "seeds": (0, 1)})
    assert [point.seed for point in more.figure2.points] == [0, 1]
    assert more.figure2.points[0] == first.figure2.points[0]


def test_another_request_is_refused(book, tmp_path):
    small.run(book, tmp_path / "out")
    before = files(tmp_path / "out")
    for more, said in [
        ({"lr": 0.5}, r"out: this search began with search\.lr=0\.01, not 0\.5; give the same value"),
        ({"train": small.TRAIN.but(lr=0.5)}, r"began with train\.lr=0\.001, not 0\.5"),
        ({"changes": {"dim": 32}}, "began with dim=16, not 32"),
        ({"sublayers": 6}, r'began with stack\.layout="\(sf\)x2"'),
    ]:
        with pytest.raises(ValueError, match=said) as error:
            small.run(book, tmp_path / "out", **more)
        assert "\n" not in str(error.value)
    assert files(tmp_path / "out") == before


# Retraining


def test_winners_are_ordinary_runs(book, tmp_path):
    shown = small.run(book, tmp_path / "out", retrained=True, par=None, sublayers=6, seeds=(0, 1), steps=10)
    runs = {path.name: Run.open(path) for path in (tmp_path / "out" / "runs").iterdir()}
    assert set(runs) == {"searched-0", "searched-1", "base-0", "base-1", "par-2-0", "par-3-0", "par-5-0"}
    assert runs["base-1"].model_config.stacks[""].layout == "(sf)x3"
    assert runs["base-1"].asked["train"]["seed"] == 1
    for seed in (0, 1):
        assert runs[f"searched-{seed}"].model_config.stacks[""].layout == result(tmp_path / "out", seed)["layout"]
    assert SupernetFigures.read(tmp_path / "out" / "figures.json") == shown
    assert all(point.perplexity > 1 for figure in (shown.figure2, shown.figure4) for point in figure.points)


def diverge(names):
    def resume(run, **how):
        if run.path.name in names:
            raise DivergedError("step 1: the loss is nan")
        return real(run, **how)

    real = trainings.resume
    return resume


def test_one_that_diverges_is_told_and_the_others_go_on(book, tmp_path, monkeypatch):
    asked = {"retrained": True, "par": (2,), "seeds": (0, 1), "steps": 10}
    monkeypatch.setattr(trainings, "resume", diverge({"searched-0", "base-1", "par-2-0"}))
    shown = small.run(book, tmp_path / "out", **asked)
    assert shown.diverged == dict.fromkeys(("searched-0", "base-1", "par-2-0"), "step 1: the loss is nan")
    first, second = shown.figure2.points
    assert first.perplexity is None
    assert second.perplexity > 1
    assert shown.base.perplexities == [shown.base.mean, None]
    assert shown.base.std == 0.0
    assert shown.figure4.points[0].perplexity is None
    monkeypatch.setattr(trainings, "resume", None)  # what has diverged is not tried again
    assert small.run(book, tmp_path / "out", **asked) == shown


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("environment.json", "no threads in it; it was damaged or edited, put it back"),
        ("searches/0/result.json", "no seed in it; it was damaged"),
        ("scores/base-0.json", "no name in it; it was damaged"),
    ],
)
def test_a_damaged_file(book, tmp_path, name, said):
    asked = {"retrained": True, "steps": 10}
    small.run(book, tmp_path / "out", **asked)
    (tmp_path / "out" / name).write_text("{}")
    with pytest.raises(ValueError, match=f"{name}: {said}"):
        small.run(book, tmp_path / "out", **asked)


# Refused


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"steps": 1}, r"search\.steps=1: none is left for the architecture"),
        ({"train": small.TRAIN.but(length=500)}, "train, the part for the .*: .* tokens are too few"),
        (
            {"train": small.TRAIN.but(start="runs/other")},
            r"train\.start=runs/other: a search begins with fresh weights",
        ),
        ({"sublayers": 1}, "sublayers=1: expected 2 to 10,000"),
        ({"letters": "sx"}, "letters=sx: the alphabet has no 'x'"),
        ({"retrained": True, "par": (9,)}, r"par\(9\) of 4 sublayers leaves 0 attentions"),
        ({"latency_weight": 1.0}, "latency_weight=1 needs the latency of 's'"),
        ({"tau_start": 0.1, "tau_end": 1.0}, "tau_end=1 is above tau_start=0.1"),
    ],
)
def test_what_cannot_be(book, tmp_path, more, said):
    with pytest.raises(ValueError, match=said) as error:
        small.run(book, tmp_path / "out", **more)
    assert "\n" not in str(error.value)
    assert not (tmp_path / "out").exists()


def test_a_folder_of_something_else(book, tmp_path):
    (tmp_path / "diary.txt").write_text("mine")
    with pytest.raises(ValueError, match=r"holds other files \(diary\.txt"):
        small.run(book, tmp_path)


def test_an_encoder_can_be_searched(book, tmp_path):
    from sublayer import config
    from sublayer.data import DataConfig

    sizes = {"dim": 16, "layout": "(sf)x2", "s.heads": 2, "f.inner": 16}
    base = config("bert-base").but(sizes)
    asked = SearchConfig(steps=10)
    shown = search(base, DataConfig.guess(str(book)), tmp_path / "out", asked, small.TRAIN, seeds=(0,), retrained=False)
    assert len(shown.figure2.points[0].word) == 4
    assert over(base).stack.slots == 4
