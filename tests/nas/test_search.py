"""Searches in their folder: the front, limits that cannot be kept, going on after a kill."""

import json
import random

import pytest

from sublayer.nas import Space, Stage, pareto, search
from sublayer.nas.folder import SearchFolder
from sublayer.nas.records import MeasuredFigures
from sublayer.nas.sources import Sources
from sublayer.nas.train_front import best
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


class Meter:
    """A device that is slower than predicted by some factor; disturbed, or quiet."""

    def __init__(self, slower=1.1, disturbed=None):
        self.slower, self.disturbed, self.races = slower, disturbed, []

    def measure(self, configs):
        self.races.append(configs)
        if self.disturbed == "dead":
            raise ValueError("the process that measures died")
        known = [little.evaluate(config) for config in configs]
        return [
            MeasuredFigures(
                latency=self.slower * one["latency"],
                low=one["latency"],
                high=1.2 * one["latency"],
                memory=one["memory"],
                disturbed=self.disturbed,
            )
            for one in known
        ]


def test_models_of_the_front_are_measured_once_in_one_race(tmp_path):
    with pytest.raises(ValueError, match="died"):
        little.find(tmp_path, population=50, meter=Meter(disturbed="dead"))
    meter = Meter()
    result = little.find(tmp_path, population=50, meter=meter)
    measured = [one for one in result.front if one.measured]
    (race,) = meter.races
    assert len(measured) == min(15, len(result.front)) == len(race)
    assert measured[0] is result.front[0]
    assert measured[-1] is result.front[-1]
    assert result.predictor.latency == pytest.approx(1 - 1 / 1.1)
    assert little.find(tmp_path, population=50, meter=meter) == result
    assert len(meter.races) == 1


def test_a_front_measured_on_a_busy_machine_is_measured_again(tmp_path):
    limits = {"latency": "3ms"}
    first = little.find(tmp_path, meter=Meter(9.0, disturbed="others work"), limits=limits)
    assert {one.within for one in first.front} == {None}
    assert first.predictor is None
    second = little.find(tmp_path, meter=Meter(1.0), limits=limits)
    assert all(one.within for one in second.front if one.measured)


def test_what_is_above_the_limit_as_measured_is_marked_and_not_trained(tmp_path):
    result = little.find(tmp_path, meter=Meter(1.5), limits={"latency": "3ms"})
    for one in result.front:
        assert one.within == (None if one.measured is None else one.measured.latency <= 3e-3)
    assert not all(one.within for one in result.front)
    assert all(one.within is not False for one in best(result, 99))


class Predicting(little.Evaluate):
    """Predicts; the budget's latency is a limit. Busy: ten times too slow, until it settles."""

    def __init__(self, busy=False, stays=False):
        self.busy, self.stays = busy, stays

    def figures(self, config):
        known = little.evaluate(config)
        return {**known, "latency": known["latency"] * (10 if self.busy else 1)}

    def settle(self):
        self.busy = self.busy and self.stays
        return True

    @property
    def disturbed(self):
        return "others work" if self.busy else None

    def allowance(self, budget):
        return {"latency": self.figures(budget)["latency"]}


def test_a_model_is_the_budget_and_takes_part_in_the_race(tmp_path):
    budget, meter = little.space().base.but({"f.inner": 128}, dim=64, layout="(sf)x2"), Meter(1.3)
    how = {"sources": Sources([Predicting()], meter), "budget": budget, **little.FEW}
    result = search(little.space(), tmp_path, **how)
    predicted = little.evaluate(budget)["latency"]
    assert all(one.values["latency"] <= predicted for one in result.front)
    assert result.budget.measured.latency == result.limits["latency"] == pytest.approx(1.3 * predicted)
    assert meter.races[0][-1] == budget
    assert all(one.within for one in result.front if one.measured)
    assert search(little.space(), tmp_path, **how) == result
    assert len(meter.races) == 1
    with pytest.raises(ValueError, match="another budget"):
        search(little.space(), tmp_path, **{**how, "budget": budget.but(dim=96)})


def test_a_search_begun_on_a_busy_machine_and_ended_on_a_quiet_one_has_the_same_front(tmp_path):
    quiet, busy = (
        search(little.space(), tmp_path / name, sources=Sources([Predicting(name == "busy")]), **little.FEW)
        for name in ("quiet", "busy")
    )
    assert busy.front == quiet.front
    assert busy.hypervolume == quiet.hypervolume
    assert busy.disturbed is None


def test_no_candidate_is_refused_by_disturbed_figures_without_a_word(tmp_path):
    limits = {"latency": 2 * min(little.evaluate(little.smallest())["latency"], 1.0)}
    how = {"limits": limits, **little.FEW}
    with pytest.raises(
        ValueError, match=r"no candidate has latency.*busy machine \(others work\).*measures them again"
    ):
        search(little.space(), tmp_path / "stays", sources=Sources([Predicting(True, stays=True)]), **how)
    assert search(little.space(), tmp_path / "ends", sources=Sources([Predicting(True)]), **how).feasible


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
