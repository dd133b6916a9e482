"""Training on a task: head and vocabulary are its own, accuracy is measured, and a run goes on to the same bits."""

import json
import shutil

import pytest
import torch

import sublayer
from sublayer.cli import main
from sublayer.comparison import Variant, compare
from sublayer.data import Task
from sublayer.data.tasks import Chains, Counting, Episodes
from sublayer.evaluation import own_text, score_task, task_scoring
from sublayer.nn.embedding import Label, TiedHead
from sublayer.objectives import Answers
from sublayer.runs import Run
from sublayer.training import TrainConfig
from sublayer.training.distribution import World
from sublayer.training.trainee import Trainee
from sublayer.training.validation import validate
from tests.training import tiny

TASKS = {
    "random-walk": {"data__size": 3, "data__length": 7},
    "algorithmic": {"data__length": 9, "data__variables": 2},
    "copy": {"data__length": 4, "data__test_length": 9},
    "reverse": {"data__length": 4},
    "counting": {"data__length": 6},
}
FEW = {"data__episodes": 40, "data__valid": 6, "data__test": 5, "train__steps": 3, "train__log_every": 1}


def train(out, name, paper="gpt2", **more):
    return sublayer.train(paper, f"task:{name}", out, tiny.changes(paper, **{**TASKS[name], **FEW, **more}), quiet=True)


def test_rows_too_short_to_ask_anything_are_no_beginning_to_explode_from(tmp_path):
    run = train(tmp_path / "run", "copy", train__grow_from=4, train__grow_over=2, train__lr=1e-6)
    losses = [line["loss"] for line in run.metrics if "loss" in line]
    assert losses[0] == 0
    assert losses[-1] > 1.5


@pytest.mark.parametrize("paper", ["gpt2", "transformer-xl"])
@pytest.mark.parametrize("name", TASKS)
def test_every_task_trains_and_is_scored(tmp_path, name, paper):
    run = train(tmp_path / "run", name, paper)
    task = Task.Config.parse(run.asked["data"]).build()
    config = run.model_config
    assert config.vocab == task.vocab
    if task.classes is None:
        assert isinstance(config.head, TiedHead.Config)
    else:
        assert config.head == Label.Config(classes=task.classes)
    last = [line for line in run.metrics if "valid_loss" in line][-1]
    assert last.keys() == {"step", "tokens", "valid_loss", "valid_accuracy", "valid_sequence_accuracy"}
    cursor = run.checkpoints[-1].notes["cursor"]
    assert cursor["kind"] == ("chains" if paper == "transformer-xl" and not task.alone else "episodes")
    trained = sublayer.load(run.path)
    marks = score_task(trained.model, task.valid, length=16)
    assert marks.loss == pytest.approx(last["valid_loss"], rel=1e-5)
    assert marks.accuracy == pytest.approx(last["valid_accuracy"])
    assert marks.sequence_accuracy == pytest.approx(last["valid_sequence_accuracy"])
    assert own_text(run).tokens.name == "test"


@pytest.mark.parametrize(("name", "paper"), [("random-walk", "transformer-xl"), ("counting", "gpt2")])
def test_a_run_that_was_stopped_goes_on_to_the_same_bits(tmp_path, monkeypatch, name, paper):
    often = {"train__steps": 4, "train__save_every": 1}
    expected = tiny.files(train(tmp_path / "whole", name, paper, **often).path)

    def stop(self, run, world, done=Trainee.save):
        done(self, run, world)
        if self.progress.step == 2:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Trainee, "save", stop)
        with pytest.raises(KeyboardInterrupt):
            train(tmp_path / "run", name, paper, **often)
    sublayer.resume(tmp_path / "run", quiet=True)
    assert tiny.files(tmp_path / "run") == expected


def test_an_earlier_step_is_gone_on_from(tmp_path):
    run = train(tmp_path / "run", "copy", train__steps=3, train__save_every=1, train__keep=9)
    expected = tiny.files(shutil.copytree(run.path, tmp_path / "copy"))
    sublayer.resume(run.path, step=1, quiet=True)
    assert tiny.files(run.path) == expected


def test_it_learns_to_copy(tmp_path):
    fast = {
        "dim": 32,
        "s.heads": 2,
        "train__steps": 100,
        "train__lr": 0.01,
        "train__batch": 32,
        "train__eval_every": 100,
    }
    more = {**tiny.STILL, "data__length": 2, "data__episodes": 1000, "train__log_every": 100}
    run = train(tmp_path / "run", "copy", **fast, **more)
    assert tiny.losses(run, "valid_sequence_accuracy")[-1] > 0.9
    assert sublayer.load(run.path).generate("3 8 |", tokens=2, temperature=0) == "3 8"


def test_weights_and_padding_leave_no_trace(tmp_path):
    """The loss of padded rows is the mean over answers, whatever stands beside them."""
    torch.manual_seed(0)
    task = Counting.Config(length=9, episodes=8).build()
    model = sublayer.config("gpt2", {"s.heads": 2}, dim=16, layout="(sf)x2", vocab=4).build().double().eval()
    objective = Answers.Config().build(model)
    batch = next(Episodes(task.train, 8))
    assert batch.valid_BL is not None
    _, _, named = objective.eval()(batch)
    alone = [objective(next(Episodes(task.train, 1, cursor=_at(task, n))))[2]["loss"] for n in range(8)]
    counts = batch.weights_BL.sum(1)
    torch.testing.assert_close(named["loss"], (torch.stack(alone) * counts).sum() / counts.sum())


def _at(task, n):
    return {**Episodes(task.train, 1).cursor, "episodes": n}


def test_a_segment_that_asks_nothing_moves_nothing(tmp_path):
    once = {"train__steps": 4, "train__eval_every": 9, "data__valid": 2}
    run = train(tmp_path / "run", "algorithmic", "transformer-xl", train__length=1, train__batch=1, **once)
    assert all(0 <= loss < 99 for loss in tiny.losses(run))


def test_validation_carries_as_training_does(tmp_path):
    run = train(tmp_path / "run", "random-walk", "transformer-xl")
    config = TrainConfig.parse(run.asked["train"])
    task = Task.Config.parse(run.asked["data"]).build()
    trainee = Trainee.make(Run.open(run.path), config, task, World("cpu"), run.checkpoint())
    assert isinstance(trainee.batches, Chains)
    lanes = validate(trainee, config, task, World("cpu"), whole=True).figures
    alone = validate(trainee, config.but(batch=1), task, World("cpu"), whole=True).figures
    assert lanes.keys() == {"loss", "accuracy", "sequence_accuracy"}
    assert lanes["loss"] == pytest.approx(alone["loss"], rel=0.05)  # a memory reaches back beyond a reset


@pytest.mark.parametrize(
    ("name", "paper", "changes", "said"),
    [
        (
            "copy",
            "bert-base",
            {},
            "encoder: has no objective for task:copy, which gives answers; train .* \\(decoder\\), or name one",
        ),
        ("copy", "transformer", {}, "encoder_decoder: has no objective for task:copy"),
        ("copy", "gpt2", {"head": "label"}, "head=label: the answers of task:copy are what it reads; use a head"),
        (
            "random-walk",
            "gpt2",
            {"head": "linear"},
            "head=linear: task:random-walk has 9 answers.*head=label head.class",
        ),
        ("random-walk", "gpt2", {"head.classes": 4}, "head=label: task:random-walk has 9 answers"),
        ("random-walk", "gpt2", {"vocab": 3}, "vocab=3: .* has 4 ids"),
        ("random-walk", "gpt2", {"position.limit": 7}, "has episodes of up to 8 tokens, and the model 7 learned pos"),
        (
            "random-walk",
            "gpt2",
            {"train__grow_from": 9},
            "train.grow_from=9: episodes of task:random-walk have up to 8",
        ),
        ("copy", "transformer-xl", {"train__carry": True}, "train.carry: each episode of task:copy stands for itself"),
        ("random-walk", "gpt2", {"data__size": 1}, "data.size: input should be greater than or equal to 2, got 1"),
        ("algorithmic", "gpt2", {"data__variables": 0}, "data.variables: input should be greater"),
        ("counting", "gpt2", {"data__length": 0}, "data.length: input should be greater"),
        ("random-walk", "transformer-xl", {"train__batch": 64}, "train: 40 episodes are too few for 64 lanes"),
    ],
)
def test_what_cannot_be_is_said_before_anything_is_written(tmp_path, name, paper, changes, said):
    with pytest.raises(ValueError, match=said) as error:
        train(tmp_path / "run", name, paper, **changes)
    assert "\n" not in str(error.value)
    assert not (tmp_path / "run").exists()


def test_a_text_has_no_answers(book, tmp_path):
    with pytest.raises(ValueError, match="head=label: plain text has no answers to learn from"):
        tiny.train(book, tmp_path / "run", head="label")


def test_a_run_on_a_text_does_not_start_one_on_a_task(book, tmp_path):
    run = tiny.train(book, tmp_path / "text", train__steps=1)
    with pytest.raises(ValueError, match=r"task:copy: is written in 0 1 .*, and the model was trained on other tokens"):
        train(tmp_path / "run", "copy", train__start=str(run.path))


def test_episodes_grow(tmp_path):
    grown = {"train__grow_from": 2, "train__grow_over": 3, "train__steps": 5, "train__log_every": 1}
    run = train(tmp_path / "run", "random-walk", **grown)
    tokens = [line["tokens"] for line in run.metrics if "loss" in line]
    rows = run.asked["train"]["batch"]
    assert [after - before for before, after in zip([0, *tokens], tokens, strict=False)] == [
        rows * places for places in (2, 4, 6, 8, 8)
    ]


def test_beginnings_that_ask_nothing_move_nothing(tmp_path):
    run = train(
        tmp_path / "run", "copy", train__grow_from=1, train__grow_over=10**6, train__steps=2, train__log_every=1
    )
    assert [line["norm"] for line in run.metrics if "loss" in line] == [0, 0]


def test_answers_are_asked_as_they_were_learned(tmp_path, capsys, monkeypatch):
    """Episode by episode, where a model with a memory was trained so: by compare's test, and by eval."""
    monkeypatch.setattr(task_scoring, "AT_ONCE", 10)  # fewer lanes than episodes
    alone = {**TASKS["random-walk"], **FEW, "train__carry": False, "train__length": 5}
    changes = tiny.changes("transformer-xl", **alone)
    variants = ["transformer-xl", Variant.of("transformer-xl", {"position": "alibi"})]
    table = compare(variants, "task:random-walk", tmp_path / "out", changes, seeds=(0,), measure=None)
    run = Run.open(tmp_path / "out" / table.rows[0].runs[0])
    model, walk = sublayer.load(run.path).model, Task.Config.parse(run.asked["data"]).build()
    expected = score_task(model, walk.test, length=5, carry=False)
    assert expected.loss != score_task(model, walk.test, length=5, carry=True).loss
    assert table.rows[0].test.loss.mean == pytest.approx(expected.loss)
    with pytest.raises(SystemExit):
        main(["eval", str(run.path), "--json"])
    assert json.loads(capsys.readouterr().out)["loss"] == pytest.approx(expected.loss)
