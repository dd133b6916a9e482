"""Trials in Optuna's journal: read back whole, by several writers, after a line was cut."""

import os
import warnings

import optuna
import pytest

from sublayer.nas.evolution import Evolution
from sublayer.nas.goals import read_goals
from sublayer.nas.stages import CountStage, Evaluator
from sublayer.nas.study import Journal, mend
from tests.nas import little

OBJECTIVES = read_goals("decoder_params,latency,memory")
SPACE = little.space()


def trials(count, seed=0, limits=None):
    evaluator = Evaluator([CountStage(), little.Evaluate()], OBJECTIVES, limits or {})
    asked = Evolution(SPACE, OBJECTIVES, seed, max(5, count)).ask(count)
    return [evaluator.evaluate(number, candidate) for number, candidate in enumerate(asked)]


def halving(*names):
    """Limits that about half of the candidates keep, each."""
    free = trials(12)
    return {name: sorted(trial.figures[name] for trial in free)[7] for name in names}


def told(trial):
    return trial.number, trial.candidate.hash, trial.candidate.config.dump(), trial.figures, trial.excess


def read(path, name="one"):
    return [tuple(vars(one).values()) for one in Journal(path, name, SPACE, OBJECTIVES).trials()]


def test_trials_read_back(tmp_path):
    path = tmp_path / "journal.log"
    made = trials(12, limits=halving("params", "latency"))
    assert {trial.feasible for trial in made} == {True, False}
    journal = Journal(path, "one", SPACE, OBJECTIVES)
    for trial in made:
        journal.add(trial)
    assert read(path) == [told(trial) for trial in made]


def test_optuna_understands_it(tmp_path):
    path = tmp_path / "journal.log"
    made = trials(12, limits=halving("params"))
    journal = Journal(path, "one", SPACE, OBJECTIVES)
    for trial in made:
        journal.add(trial)
    storage = optuna.storages.JournalStorage(optuna.storages.journal.JournalFileBackend(str(path)))
    study = optuna.load_study(study_name="one", storage=storage)
    assert [direction.name for direction in study.directions] == ["MAXIMIZE", "MINIMIZE", "MINIMIZE"]
    assert study.metric_names == [objective.name for objective in OBJECTIVES]
    from sublayer.nas.front import nondominated

    assert {trial.number for trial in study.best_trials} == {trial.number for trial in nondominated(made, OBJECTIVES)}
    first = study.trials[0]
    assert first.params["dim"] == made[0].candidate.genes["dim"]
    assert first.params["f.inner.0"] == made[0].candidate.genes["f.inner"][0]
    assert all(trial.state.name == ("COMPLETE" if made[trial.number].feasible else "PRUNED") for trial in study.trials)


@pytest.mark.parametrize("left", [1, 40])
def test_a_line_that_was_cut_is_forgotten(tmp_path, left):
    path = tmp_path / "journal.log"
    first, second = trials(2)
    Journal(path, "one", SPACE, OBJECTIVES).add(first)
    whole = path.read_bytes()
    Journal(path, "one", SPACE, OBJECTIVES).add(second)
    path.write_bytes(path.read_bytes()[: len(whole) + left])
    assert read(path) == [told(first)]
    Journal(path, "one", SPACE, OBJECTIVES).add(second)
    assert read(path) == [told(first), told(second)]


def test_a_writer_that_dies_does_not_stop_the_other(tmp_path):
    """Half a line is left behind while another process has the journal open."""
    path = tmp_path / "journal.log"
    first, second = trials(2)
    journal = Journal(path, "one", SPACE, OBJECTIVES)
    with open(path, "ab") as file:
        file.write(b'{"op_code":4,"worker')
    journal.add(first)
    journal.add(second)
    assert read(path) == [told(first), told(second)]


def test_two_searches_write_to_one_journal(tmp_path):
    path = tmp_path / "journal.log"
    children = []
    for seed, name in enumerate(("one", "two")):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # xdist's thread, which the child does not need
            child = os.fork()
        if not child:
            code = 1
            try:
                journal = Journal(path, name, SPACE, OBJECTIVES)
                for trial in trials(25, seed):
                    journal.add(trial)
                code = 0
            finally:
                os._exit(code)
        children.append(child)
    assert [os.waitpid(child, 0)[1] for child in children] == [0, 0]
    for seed, name in enumerate(("one", "two")):
        assert read(path, name) == [told(trial) for trial in trials(25, seed)]


def test_mending(tmp_path):
    path = tmp_path / "journal.log"
    mend(path)
    for before, after in ((b"", b""), (b"a\n", b"a\n"), (b"a\nb", b"a\n"), (b"ab", b"")):
        path.write_bytes(before)
        mend(path)
        assert path.read_bytes() == after
