"""Candidates of a search by name: every trial of the journal, models of the front, names that mean none."""

import re
import shutil
from pathlib import Path

import pytest

import sublayer
from sublayer import models
from sublayer.nas.folder import SearchFolder
from sublayer.nas.pick import pick
from sublayer.nas.point import Point, read_point
from sublayer.nas.records import FrontModel, MeasuredFigures
from sublayer.nas.study import read_trials
from sublayer.runs import sealed_json
from tests.nas import little


@pytest.fixture(scope="module")
def searched(tmp_path_factory):
    """A search of 34 trials, and its result."""
    out = tmp_path_factory.mktemp("search") / "s"
    return out, little.find(out)


def test_every_trial_of_the_journal_has_a_name(searched):
    out, result = searched
    trials = read_trials(out / "journal.log")
    assert [one.number for one in trials] == list(range(result.trials))
    fronts = {one.number for one in result.front}
    for one in (trials[0], trials[-1], next(one for one in trials if one.number not in fronts)):
        point = read_point(f"{out}#{one.number}")
        assert (point.config.dump(), point.model.values) == (one.config, one.figures)
        assert point.on_front == (one.number in fronts)
        assert point.name == f"{out}#{one.number}"
        assert point.model.layout == point.config.stack.layout
    assert sublayer.config(f"{out}#0").hash == trials[0].hash


@pytest.mark.parametrize("by", ["best", "fastest", "knee"])
def test_models_of_the_front_by_what_they_are(searched, by):
    out, result = searched
    found = models.find(f"{out}#{by}")
    expected = pick(result, by)
    assert (found.name, found.config.dump()) == (f"{out}#{expected.number}", expected.config)


def test_figures_have_their_source(searched):
    out, _ = searched
    described = sublayer.describe(f"{out}#best")
    found = {(one.name, one.source) for one in described.figures}
    assert found >= {("latency", "predicted"), ("memory", "predicted"), ("params", "counted")}
    assert described.dump()["figures"][0].keys() == {"name", "value", "source", "disturbed"}


def test_a_disturbed_latency_is_shown_as_one():
    measured = MeasuredFigures(latency=0.002, memory=1e6, disturbed="others work")
    model = FrontModel(number=3, values={"latency": 0.004, "memory": 1e6, "params": 5.0}, measured=measured)
    figures = Point(Path("s"), model, on_front=True, disturbed="others worked").figures()
    assert [(one.name, one.how) for one in figures] == [
        ("latency", "predicted on a busy machine (others worked)"),
        ("latency", "measured on a busy machine (others work)"),
        ("memory", "predicted"),
        ("memory", "measured"),
        ("params", "counted"),
    ]


def test_reading_writes_nothing_and_a_search_may_go_on(searched):
    out, _ = searched
    before = sorted(path.name for path in out.iterdir())
    with SearchFolder(out).locked():
        read_point(f"{out}#1")
    assert sorted(path.name for path in out.iterdir()) == before


def test_without_a_front_the_journal_still_has_the_trials(searched, tmp_path):
    out = tmp_path / "begun"
    shutil.copytree(searched[0], out)
    (out / "front.json").unlink()
    assert not read_point(f"{out}#3").on_front
    with pytest.raises(ValueError, match=r"the search has no front\.json yet; run the same sublayer search again"):
        read_point(f"{out}#best")
    with pytest.raises(ValueError, match=r"a search that has no front\.json yet"):
        models.find(str(out))


@pytest.mark.parametrize(
    ("name", "answer"),
    [
        ("{}#99", r"#99: the search has trials 0 to 33; name one of them, or .*#best"),
        ("{}#99999999999999999999", r"is not the number of a trial"),
        ("{}#abc", r"'abc' is not the number of a trial; write .*#12, or one of .*#best, .*#fastest, .*#knee"),
        ("{}#", r"'' is not the number of a trial"),
        ("{}#-1", r"'-1' is not the number of a trial"),
        ("{}/runs#1", r"runs: not a search, it has no search.json; give the folder that sublayer search --out made"),
        ("{}", r"a search, with \d+ models on its front; name one by its trial, such as .*#\d+, or by .*#best"),
        ("{}/front.json", r"front\.json: a search, with \d+ models on its front; name one by its trial"),
        ("{}/..", r"a folder without a run or a search; give a paper's name"),
    ],
)
def test_names_that_mean_no_model(searched, name, answer):
    with pytest.raises(ValueError, match=answer) as refused:
        models.find(name.format(searched[0]))
    assert "\n" not in str(refused.value)


def test_a_damaged_journal_is_refused_in_a_line(searched, tmp_path):
    out = tmp_path / "s"
    shutil.copytree(searched[0], out)
    text = (out / "journal.log").read_text()
    (out / "journal.log").write_text(text.replace('"op_code":4', '"op_code":', 1))
    with pytest.raises(ValueError, match=re.escape(f"{out}/journal.log: not a journal of trials")):
        read_trials(out / "journal.log")


def test_an_unknown_kind_hints_at_plugins(searched, tmp_path):
    out = tmp_path / "s"
    shutil.copytree(searched[0], out)
    front = sealed_json.read(out / "front.json")
    front["front"][0]["config"]["stack"]["alphabet"]["f"]["kind"] = "of_mine"
    sealed_json.write(out / "front.json", front)
    answer = r"#\d+\.stack\.alphabet\.f: unknown part kind 'of_mine'; .*; for a kind of your own, add --plugin MODULE"
    with pytest.raises(ValueError, match=answer):
        models.find(f"{out}#{front['front'][0]['number']}")
