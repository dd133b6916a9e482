"""What is evaluated on valid while a model is trained: a sample on the way, all at the end, unless asked otherwise."""

import itertools

import pytest

import sublayer
from sublayer.data import Sweep
from sublayer.executors.trainings import scores
from sublayer.runs.metrics import ValidLine, comparable, read_line
from sublayer.runs.summary import summarise
from sublayer.training import TrainConfig
from sublayer.training.trainee import Trainee
from tests.training import tiny

LARGE = {"data__splits__valid": 0.5, "train__lr": 0.02}
"""Half of the text is valid: 34 batches of two rows."""


@pytest.fixture
def read(monkeypatch):
    """Batches of valid that each evaluation reads."""
    counts = []

    def start(self, *args, done=Sweep.__init__, **how):
        done(self, *args, **how)
        counts.append(0)

    def step(self, done=Sweep.__next__):
        found = done(self)
        counts[-1] += 1
        return found

    monkeypatch.setattr(Sweep, "__init__", start)
    monkeypatch.setattr(Sweep, "__next__", step)
    return counts


def valid(run):
    return [line for line in run.metrics if "valid_loss" in line]


def test_on_the_way_a_sample_at_the_end_all(book, tmp_path, read):
    run = tiny.train(book, tmp_path / "run", train__steps=8, **LARGE)
    assert [line["step"] for line in valid(run)] == [2, 4, 6, 8]
    assert [line.get("valid_batches") for line in valid(run)] == [1, 1, 1, None]
    # One more is read ahead, to know whether there are more.
    assert read == [2, 2, 2, read[-1]]
    assert read[-1] > 30


@pytest.mark.parametrize("name", ["eval_tokens", "all"])
def test_what_is_asked_for_is_evaluated_every_time(book, tmp_path, read, name):
    tokens = {"eval_tokens": 100_000, "all": None}[name]
    run = tiny.train(book, tmp_path / "run", train__steps=3, train__eval_tokens=tokens, **LARGE)
    assert [line["step"] for line in valid(run)] == [1, 2, 3]
    assert not any("valid_batches" in line for line in valid(run))
    assert len(set(read)) == 1


def test_the_sample_takes_at_most_a_fifth_of_the_work():
    """By passes: a step is one forward and a backward of twice the work."""
    from sublayer.training.validation import sample_size

    class Asked:
        carries = False

    trainee, data = Asked(), Asked()
    trainee.batches = Asked()
    for steps, accumulate, longest, grown in itertools.product((7, 20, 1000), (1, 3), (16, 64), (None, 8)):
        trainee.batches.longest = longest
        data.longest = lambda split, longest=longest: 2 * longest
        config = TrainConfig(steps=steps, accumulate=accumulate, length=64, grow_from=grown)
        size = sample_size(trainee, config, data)
        training = 3 * config.evaluates_every * accumulate * (grown or longest)
        evaluating = size * 2 * longest
        assert size == 1 or evaluating <= (training + evaluating) / 5


def test_a_run_stopped_between_evaluations_goes_on_to_the_same_bits(book, tmp_path, monkeypatch):
    changes = {"train__steps": 8, "train__save_every": 1, **LARGE}
    expected = tiny.files(tiny.train(book, tmp_path / "whole", **changes).path)

    def stop(self, run, world, done=Trainee.save):
        done(self, run, world)
        if self.progress.step == 3:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Trainee, "save", stop)
        with pytest.raises(KeyboardInterrupt):
            tiny.train(book, tmp_path / "run", **changes)
    sublayer.resume(tmp_path / "run", quiet=True)
    assert tiny.files(tmp_path / "run") == expected


def test_the_best_is_chosen_by_the_sample_also_at_the_end(book, tmp_path, monkeypatch):
    """With a rate of nothing all samples are equal, whatever the loss on all of valid is: the first is the best."""
    run = tiny.train(book, tmp_path / "run", train__steps=6, **{**LARGE, "train__lr": 1e-30})
    assert valid(run)[-1]["valid_loss"] != valid(run)[0]["valid_loss"]
    progress = run.checkpoints[-1].notes["progress"]
    assert progress["best_step"] == 2
    assert progress["best"] == valid(run)[0]["valid_loss"]


def test_a_training_that_ends_early_is_scored_on_all(book, tmp_path):
    run = tiny.train(book, tmp_path / "run", train__steps=50, train__patience=2, **{**LARGE, "train__lr": 1e-30})
    assert [(line["step"], "valid_batches" in line) for line in valid(run)] == [
        (5, True),
        (10, True),
        (15, True),
        (15, False),
    ]


def test_scores_on_a_sample_are_not_compared_with_scores_on_all(book, tmp_path):
    run = tiny.train(book, tmp_path / "run", train__steps=6, **LARGE)
    last = valid(run)[-1]
    assert scores(run) == comparable(run.metrics) == [last]
    assert summarise(run).valid_loss == last["valid_loss"]
    assert comparable(valid(run)[:2]) == valid(run)[:2]


def test_a_line_on_a_sample_reads_back():
    line = ValidLine(3, 96, {"loss": 2.5}, 4)
    assert read_line(line.dump()) == line


def test_configs_written_before_keep_what_they_asked_for():
    """They have a number of tokens, and evaluate after every step of a short training."""
    config = TrainConfig.parse({**TrainConfig(steps=5).dump(), "eval_tokens": 100_000})
    assert (config.evaluates_every, config.final_tokens, config.samples_valid) == (1, 100_000, False)
    assert (TrainConfig(steps=5).evaluates_every, TrainConfig().final_tokens) == (2, 100_000)
