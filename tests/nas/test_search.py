"""Searches in their folder: the front, limits that cannot be kept, going on after a kill."""

import json
import random

import pytest

from sublayer.nas import Space, Stage, pareto, search
from sublayer.nas.folder import SearchFolder
from sublayer.nas.records import MeasuredFigures
from sublayer.nas.sources import Sources
from sublayer.nn.model import Model
from tests.nas import little
from tests.training.killing import live


def points(result, entries):
    return [[goal.sign * values[goal.name] for goal in result.objectives] for values in entries]


def test_a_search(tmp_path):
    result = little.find(tmp_path / "s", limits={"latency": "5ms", "params": "1M"})
    assert json.loads((tmp_path / "s" / "front.json").read_text()) == result.to_json()
    assert result.trials == 34
    assert len(result.hypervolumes) == 4
    assert list(result.hypervolumes) == sorted(result.hypervolumes)
    assert result.hypervolume == result.hypervolumes[-1]
    front = result.front
    found = points(result, [one.values for one in front])
    assert len(pareto.front(found)) == len(front)
    assert [one.values["latency"] for one in front] == sorted(one.values["latency"] for one in front)
    for one in front:
        config = Model.Config.parse(one.config)
        assert config in little.space()
        assert one.values["decoder_params"] == config.cost().decoder_params
        assert one.values["latency"] <= 5e-3
    assert SearchFolder.open(tmp_path / "s").read_request().limits == {"latency": 0.005, "params": 1e6}


def test_the_same_request_goes_on_and_another_is_refused(tmp_path):
    asked = []

    class Watched(Stage):
        def figures(self, config):
            asked.append(config.hash)
            return little.evaluate(config)

    sources = Sources([Watched()])
    first = search(little.space(), tmp_path, sources=sources, **little.FEW)
    assert len(asked) == len(set(asked)) == 34
    assert search(little.space(), tmp_path, sources=sources, **little.FEW) == first
    assert len(asked) == 34
    with pytest.raises(
        ValueError, match=r"another seed \(0, now 1\); ask for the same to go on with it, or choose another"
    ):
        little.find(tmp_path, seed=1)
    with pytest.raises(ValueError, match=r"another limits\.params .*now 9000"):
        little.find(tmp_path, limits={"params": "9M"})


@pytest.mark.parametrize("method", ["evolution", "random", "nsga2"])
def test_methods_look_at_as_many_candidates(tmp_path, method):
    result = little.find(tmp_path, method=method, objectives="decoder_params,latency", limits={"memory": "1MB"})
    assert result.trials == 34
    assert all(one.values["memory"] <= 1e6 for one in result.front)


@pytest.mark.parametrize(
    ("limits", "answer"),
    [
        ({"params": "1k"}, r"params_max=1 k: the smallest candidate of the space has [\d.]+ k parameters; raise"),
        (
            {"latency": "1us"},
            r"no candidate has latency up to 1 µs: of \d+ tried, the nearest \(layout .*, dim \d+\) has",
        ),
    ],
)
def test_limits_that_cannot_be_kept(tmp_path, limits, answer):
    for _ in range(2):  # going on leads to the same answer
        with pytest.raises(ValueError, match=answer) as error:
            little.find(tmp_path / "s", limits=limits)
        assert "\n" not in str(error.value)
    assert not (tmp_path / "s" / "front.json").exists()


def test_an_empty_space(tmp_path):
    space = little.space({"dim": "49|51", "s.heads": "4|8"}, ())
    with pytest.raises(
        ValueError, match=r"the space is empty: 200 draws gave no valid candidate; .*does not divide dim"
    ):
        search(space, tmp_path, sources=Sources([little.Evaluate()]))


def test_a_small_space_is_searched_whole(tmp_path):
    space = little.space({"dim": "32|64", "layout": "sf|sff"}, ())
    assert search(space, tmp_path, sources=Sources([little.Evaluate()]), **little.FEW).trials == 4


def test_tight_limits_are_found_from_the_smallest(tmp_path):
    space = little.space()
    from sublayer.nas.smallest import smallest

    least = smallest(space, random.Random(0)).config
    assert least.dim == 32
    limit = 1.05 * least.cost().params
    assert little.find(tmp_path, limits={"params": limit}).feasible >= 1


def test_models_of_the_front_are_measured_once(tmp_path):
    asked = []

    class Meter:
        def measure(self, config):
            asked.append(config)
            if len(asked) == 4:
                raise ValueError("too noisy")
            known = little.evaluate(config)
            latency = known["latency"] * 1.1
            return MeasuredFigures(latency=latency, low=0.9 * latency, high=1.1 * latency, memory=known["memory"])

    with pytest.raises(ValueError, match="too noisy"):
        little.find(tmp_path, population=50, meter=Meter())
    result = little.find(tmp_path, population=50, meter=Meter())
    measured = [one for one in result.front if one.measured]
    assert len(measured) == min(15, len(result.front)) == len(asked) - 1
    assert measured[0] is result.front[0]
    assert measured[-1] is result.front[-1]
    assert result.predictor.latency == pytest.approx(1 - 1 / 1.1)
    assert little.find(tmp_path, population=50) == result


def test_folders_of_others(tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(ValueError, match=r"holds other files \(notes\.txt, …\)"):
        little.find(tmp_path)
    with pytest.raises(ValueError, match="a file is there"):
        little.find(tmp_path / "notes.txt")
    with pytest.raises(ValueError, match="not a search"):
        SearchFolder.open(tmp_path)
    little.find(tmp_path / "s")
    with SearchFolder(tmp_path / "s").locked(), pytest.raises(ValueError, match="another process is searching there"):
        little.find(tmp_path / "s")
    asked = tmp_path / "s" / "search.json"
    asked.write_text(asked.read_text().replace('"seed": 0', '"seed": 5'))
    with pytest.raises(ValueError, match="checksum does not match"):
        little.find(tmp_path / "s", seed=5)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A search that nobody disturbed, and the life of its process."""
    folder = tmp_path_factory.mktemp("whole")
    little.find(folder / "warm")
    return folder / "s", live(lambda: little.find(folder / "s"), folder / "s")


@pytest.mark.parametrize("number", range(6))
def test_a_killed_search_goes_on_to_the_same_front(number, whole, tmp_path):
    expected, life = whole
    chance, out = random.Random(number), tmp_path / "s"
    event = chance.randint(1, life.events) if number else life.events - 3  # the last once, as front.json is written
    assert live(lambda: little.find(out), out, event=event) is None
    live(lambda: little.find(out), out, event=chance.randint(1, 40))
    assert live(lambda: little.find(out), out)
    assert (out / "front.json").read_bytes() == (expected / "front.json").read_bytes()
    lines = (out / "journal.log").read_text().splitlines()
    assert sum('"op_code":4' in line for line in lines) == 34


def test_a_front_that_was_damaged_is_told_in_a_line(tmp_path):
    little.find(tmp_path)
    for damage in ("{}", '{"front": [null]}'):
        (tmp_path / "front.json").write_text(damage)
        with pytest.raises(ValueError, match=r"front\.json: not what a search writes"):
            little.find(tmp_path)


def test_a_journal_that_was_damaged_is_told_in_a_line(tmp_path):
    little.find(tmp_path)
    journal = tmp_path / "journal.log"
    journal.write_bytes(b"garbage\n" + journal.read_bytes())
    with pytest.raises(ValueError, match=r"journal\.log: not a journal of trials"):
        little.find(tmp_path)


def test_a_layout_that_cannot_be_read_is_no_choice():
    with pytest.raises(ValueError, match="layout"):
        Space.of(little.space().base, {"layout": "(sf)x1|((sf"})
