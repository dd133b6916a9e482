"""Claims that are run again: each can be, and what it comes to is told as it is."""

import json
from types import SimpleNamespace

import pytest

from sublayer.comparison import ComparisonRow
from sublayer.comparison.request import resolve
from sublayer.data import Data
from sublayer.keys import split
from sublayer.reproduction import ClaimResult, Finding, claims, find, reproduce
from sublayer.reproduction.job import found, seen, seen_alike

SIZES = {"dim": 8, "layout": "(sf)", "s.heads": 2, "s.memory.length": 8, "position.clip": 8}
BUDGET = {"train.steps": 2, "train.tokens": None, "train.batch": 4, "train.warmup": 1, "train.eval_tokens": 64}
TINY = SIZES | BUDGET
TASK = {
    "data.episodes": 20,
    "data.valid": 4,
    "data.test": 4,
    "data.length": 7,
    "train.grow_from": 2,
    "train.grow_over": 2,
}


@pytest.mark.parametrize("claim", claims(), ids=lambda claim: claim.name)
def test_every_claim_can_be_begun(claim, tmp_path):
    """All that a comparison would refuse is checked; what is compared is there."""
    model, of = split(claim.changes)
    few = {"episodes": 100, "valid": 4, "test": 4} if claim.data.startswith("task:") else {}
    data = Data.Config.guess(claim.data).override({**of["data"], **few}, "data")
    request = resolve(claim.variants, data, tmp_path / "out", model, of["train"], seeds=(0,))
    names = [variant.name for variant in request.variants]
    for finding in claim.findings:
        assert {name for pair in finding.order for name in pair} <= set(names)
        assert set(finding.paper) <= set(names)


@pytest.mark.parametrize("name", ["feedback/random-walk", "feedback/algorithmic-3", "feedback/copy", "feedback/depth"])
def test_rivals_are_of_one_size(name):
    claim = find(name)
    model, _ = split(claim.changes)
    sizes = [variant.base.but({**model, **variant.changes}).cost().params for variant in claim.variants]
    assert max(sizes) < 1.03 * min(sizes)


def test_it_runs_and_goes_on(tmp_path):
    told = reproduce("feedback/random-walk", tmp_path / "out", {**TINY, **TASK}, seeds=(0, 1))
    (places,) = told.findings
    assert [row.variant for row in places.rows] == ["Feedback", "Transformer"]
    assert [row.paper for row in places.rows] == [100.0, 68.0]
    for row in places.rows:
        assert len(row.values) == 2
        assert row.ours.mean == pytest.approx(sum(row.values) / 2)
        assert 0 <= row.ours.mean <= 100
    assert json.loads((tmp_path / "out" / "claim.json").read_text()) == told.dump()
    assert ClaimResult.read(tmp_path / "out" / "claim.json") == told
    before = (tmp_path / "out" / "runs" / "Feedback-0" / "metrics.jsonl").stat().st_mtime_ns
    assert reproduce("feedback/random-walk", tmp_path / "out", {**TINY, **TASK}, seeds=(0, 1)) == told
    assert (tmp_path / "out" / "runs" / "Feedback-0" / "metrics.jsonl").stat().st_mtime_ns == before


def test_speed_is_told_of_training_and_writing(tmp_path, monkeypatch):
    """Latency of 64 rows is told as tokens a second."""

    def race(models, setting, **how):
        assert (setting.task, setting.batch, len(models)) == ("token", 64, 2)
        dumps = [{**dict.fromkeys(("latency", "low", "high"), seconds), "memory": 1} for seconds in (0.5, 1.0)]
        return SimpleNamespace(
            readings=[SimpleNamespace(disturbed=None, dump=lambda dump=dump: dump) for dump in dumps]
        )

    monkeypatch.setattr("sublayer.comparison.job.race", race)
    sizes = {**TINY, "train.steps": 3, "train.length": 8}
    training, writing = reproduce("feedback/speed", tmp_path / "out", sizes, seeds=(0,)).findings
    assert all(row.values[0] > 0 for row in training.rows)
    assert [row.values for row in writing.rows] == [[128.0], [64.0]]
    assert [row.paper for row in writing.rows] == [2176, 592]
    assert [pair.words for pair in writing.pairs] == ["Feedback before Transformer: yes"]


@pytest.mark.parametrize(
    ("better", "worse", "said"),
    [
        ([0.9, 0.91, 0.92], [0.5, 0.51, 0.5], "yes, clearly"),
        ([0.5, 0.51, 0.5], [0.9, 0.91, 0.92], "no, clearly not"),
        ([0.9, 0.5, 0.7], [0.6, 0.7, 0.65], "yes, within what seeds differ"),
        ([0.6, 0.7, 0.65], [0.9, 0.5, 0.7], "no, within what seeds differ"),
        ([0.9], [0.5], "yes"),
        ([0.5], [0.9], "no"),
        ([0.0, 0.0], [0.0, 0.0], "no, they are alike here"),
        ([None], [0.9], "not known: there is no figure of one of them"),
        ([0.9, None, 0.8], [0.5, 0.6, None], "yes"),
    ],
)
def test_what_was_seen(better, worse, said):
    assert seen(better, worse, less_is_better=False) == said
    assert seen(worse, better, less_is_better=True) == said


@pytest.mark.parametrize(
    ("one", "other", "said"),
    [
        ([0.9, 0.5, 0.7], [0.6, 0.7, 0.65], "yes, as far as seeds tell"),
        ([0.9, 0.91, 0.92], [0.5, 0.51, 0.5], "no, the first is clearly better"),
        ([0.5, 0.51, 0.5], [0.9, 0.91, 0.92], "no, the first is clearly worse"),
        ([0.9], [0.5], "not known: one seed cannot be told from chance"),
        ([None], [0.9], "not known: there is no figure of one of them"),
    ],
)
def test_whether_two_are_alike(one, other, said):
    assert seen_alike(one, other, less_is_better=False) == said


def test_figures_are_told_in_the_papers_unit():
    finding = Finding("test.accuracy", "right", "%", [("a", "b")], {"a": 90.0}, form=lambda share: 100 * share)
    rows = [
        ComparisonRow(name="a", test={"accuracy": {"mean": 0.5, "values": [0.4, 0.6]}}),
        ComparisonRow(name="b"),
    ]
    first, second = found(finding, rows).rows
    assert (first.variant, first.paper, first.values) == ("a", 90.0, [40.0, 60.0])
    assert first.ours.mean == 50
    assert second.ours is None


def test_what_variants_differ_in_is_not_changed(tmp_path):
    with pytest.raises(ValueError, match=r"layout: feedback/depth .*\(Feedback 1: \(sf\)x1\); leave it"):
        reproduce("feedback/depth", tmp_path / "out", {"layout": "(sf)x3"})
    assert not (tmp_path / "out").exists()


def test_an_unknown_claim_is_told_with_those_that_are_known():
    with pytest.raises(
        ValueError, match=r"unknown claim 'feedback/walk'; did you mean feedback/random-walk.*lists them"
    ):
        find("feedback/walk")
