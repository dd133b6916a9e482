"""Methods: what they ask for is new, valid, and the same for the same answers."""

from collections import Counter

import pytest

from sublayer.nas import compare_methods, pareto
from sublayer.nas.evolution import Evolution
from sublayer.nas.goals import read_goals
from sublayer.nas.methods import METHODS, find
from sublayer.nas.search import count_trials
from sublayer.nas.stages import CountStage, Evaluator, Stage
from sublayer.nas.trial import Trial, table
from tests.nas import little

OBJECTIVES = read_goals("decoder_params,latency,memory")
SPACE = little.space()


def evaluator(limits=None):
    return Evaluator([CountStage(), little.Evaluate()], OBJECTIVES, limits or {})


def play(method, rounds, evaluator):
    """Ask and tell; the hashes of each round."""
    asked = []
    for _ in range(rounds):
        candidates = method.ask(method.batch)
        number = sum(map(len, asked))
        method.tell([evaluator.evaluate(number + n, one) for n, one in enumerate(candidates)])
        asked.append([one.hash for one in candidates])
    return asked


@pytest.mark.parametrize("name", METHODS)
def test_no_candidate_twice_and_the_same_for_the_same_seed(name):
    make, rounds = METHODS[name], 4
    asked = play(make(SPACE, OBJECTIVES, 3, 10), rounds, evaluator())
    everything = Counter(hash for batch in asked for hash in batch)
    assert max(everything.values()) == 1
    assert play(make(SPACE, OBJECTIVES, 3, 10), rounds, evaluator()) == asked
    assert play(make(SPACE, OBJECTIVES, 4, 10), rounds, evaluator()) != asked


@pytest.mark.parametrize("name", METHODS)
def test_a_space_that_is_used_up(name):
    space = little.space({"dim": "32|64", "layout": "sf|sff"}, ())
    method = METHODS[name](space, OBJECTIVES, 0, 5)
    assert len(play(method, 1, evaluator())[0]) == 4
    assert method.ask(method.batch) == []


def test_sizes_of_generations():
    assert count_trials(100, 30) == 2500
    method = Evolution(SPACE, OBJECTIVES, 0, 10)
    assert [len(batch) for batch in play(method, 3, evaluator())] == [10, 8, 8]


@pytest.mark.parametrize("limit", [None, 1e-9, 0.006])
def test_parents_are_the_front_or_the_nearest_to_it(limit):
    method = Evolution(SPACE, OBJECTIVES, 0, 50)
    limits = {} if limit is None else {"latency": limit}
    play(method, 2, evaluator(limits))
    parents = method.parents()
    assert len(parents) == len({trial.number for trial in parents}) == 10
    within = [trial for trial in method.trials if trial.feasible]
    beyond = sorted(trial.violation for trial in method.trials if not trial.feasible)
    chosen = [trial for trial in parents if trial.feasible]
    assert len(chosen) == min(10, len(within))
    assert sorted(trial.violation for trial in parents if not trial.feasible) == beyond[: 10 - len(chosen)]
    front = {within[at].number for at in pareto.front(table(within, OBJECTIVES))}
    numbers = {trial.number for trial in chosen}
    assert numbers <= front if len(front) >= 10 else front <= numbers or len(within) < 10


def test_children_come_from_the_front():
    """With no mutation, every gene of a child is one of a parent's."""
    method = Evolution(SPACE, OBJECTIVES, 0, 20)
    play(method, 1, evaluator())
    parents = [trial.candidate.genes for trial in method.parents()]
    children = method.ask(16)[8:]
    widths = {genes["dim"] for genes in parents}
    assert {child.genes["dim"] for child in children} <= widths


def test_cheap_figures_come_first_and_end_it():
    asked = []

    class Watched(Stage):
        def figures(self, config):
            asked.append(config)
            return little.evaluate(config)

    candidate = Evolution(SPACE, OBJECTIVES, 0, 5).ask(1)[0]
    params = candidate.config.cost().params
    stages = [CountStage(), Watched()]
    strict = Evaluator(stages, OBJECTIVES, {"params": params - 1, "latency": 1.0}).evaluate(0, candidate)
    assert not asked
    assert not strict.feasible
    assert set(strict.excess) == {"params"}
    free = Evaluator(stages, OBJECTIVES, {"params": params, "latency": 1.0}).evaluate(0, candidate)
    assert free.feasible
    assert free.violation == 0
    with pytest.raises(ValueError, match="energy: there is no such figure; there are params"):
        Evaluator([CountStage()], read_goals("energy,params"), {}).evaluate(0, candidate)


def test_what_is_not_finite_is_never_on_the_front():
    class Unknown(Stage):
        def figures(self, config):
            return {"latency": float("nan"), "memory": 1.0}

    some = Evaluator([CountStage(), Unknown()], OBJECTIVES, {})
    found = some.evaluate(0, Evolution(SPACE, OBJECTIVES, 0, 5).ask(1)[0])
    assert isinstance(found, Trial)
    assert not found.feasible
    assert "latency" not in found.figures


def test_methods_side_by_side():
    found = compare_methods(SPACE, [little.Evaluate()], seeds=(0, 1), population=10, iterations=2)
    assert set(found) == {"evolution", "random", "nsga2"}
    for seeds in found.values():
        for volumes in seeds.values():
            assert volumes == sorted(volumes)  # a front only grows
            assert 0 < volumes[-1] <= 1


def test_evolution_finds_more_than_chance():
    how = {"methods": ("evolution", "random"), "objectives": "decoder_params,latency", "seeds": (0,)}
    found = compare_methods(SPACE, [little.Evaluate()], **how, population=20, iterations=10)
    assert found["evolution"][0][-1] > found["random"][0][-1]


def test_unknown_methods():
    with pytest.raises(ValueError, match="unknown method 'evolve'; did you mean evolution"):
        find("evolve")
