"""`sublayer train` and `sublayer resume`: keys as they are typed, lines as they come, refusals in one."""

import io
import json
import re
import sys

import pytest

from sublayer.data import DataConfig
from sublayer.nn.part import Part
from sublayer.runs import Run
from sublayer.training import TrainConfig
from sublayer.training.optimizer import Optimizer
from sublayer.training.schedule import Schedule
from tests.cli.test_process import process
from tests.training.tiny import TEXT

SMALL = ("dim=16", "layout=(sf)x2", "s.heads=2", "f.inner=16,24", "train.batch=2", "train.length=16", "train.warmup=1")


@pytest.fixture(autouse=True)
def book(tmp_path, monkeypatch):
    """In the current folder, whose cache is its own."""
    monkeypatch.setenv("SUBLAYER_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "book.txt").write_text(TEXT, encoding="utf-8")


def test_train_then_resume(run, tmp_path):
    said = run(
        "train", "gpt2", "--data", "book.txt", "--out", "runs/book", *SMALL, "train.steps=2", "train.eval_every=2"
    )
    made = Run.open("runs/book")
    shown = [json.loads(line) for line in said.splitlines()]
    extra = ("time", "tokens_per_second")
    assert [{key: line[key] for key in line if key not in extra} for line in shown] == list(made.metrics)
    assert [one.step for one in made.checkpoints] == [0, 2]
    assert made.model_config.stack.vary == {"f.inner": [16, 24]}
    assert made.asked["data"]["source"]["path"] == str(tmp_path / "book.txt")
    assert run("resume", "runs/book", "train.steps=3", "--quiet") == ""
    assert made.checkpoints[-1].step == 3
    assert json.loads(run("resume", "runs/book", "train.steps=4").splitlines()[0])["step"] == 4
    run("resume", "runs/book", "--step", "3", "--quiet")
    assert made.checkpoints[-1].step == 4
    assert Run.open("runs/book").request.origin == "gpt2"


def test_the_folder_is_named_by_the_model(run, tmp_path):
    stack = 'kind = "plain"\nlayout = "ss"\nalphabet.s = {kind = "multihead", heads = 2}\n'
    (tmp_path / "mine.toml").write_text(f'kind = "decoder"\nvocab = 9\ndim = 16\n[stack]\n{stack}')
    keys = ("train.steps=1", "train.length=16", "train.batch=2", "data.tokenizer=char", "--quiet")
    run("train", "mine.toml", "--data", "book.txt", *keys)
    assert Run.open("runs/mine").model_config.vocab == 27


def test_help_lists_every_key_and_needs_no_torch():
    done = process("train", "--help")
    assert done.returncode == 0, done.stderr
    page, modules = done.stdout.splitlines()[:-1], done.stdout.splitlines()[-1].split()
    assert "sublayer.cli.keys" in modules
    assert not {"torch", "numpy", "pydantic", "sublayer.api", "sublayer.training"} & set(modules)
    examples, words = " ".join(page).split("Keys of the training")
    assert "Examples: sublayer train" in examples
    defaults = TrainConfig()
    for name in TrainConfig.model_fields:
        value = getattr(defaults, name)
        shown = value.tag if hasattr(value, "tag") else value if isinstance(value, str) else json.dumps(value)
        found = re.search(rf" train\.{name}=(\S+?):? ", words)
        assert found, name
        assert found[1] == shown or json.loads(found[1]) == value
    for family, prefix in ((Optimizer, "train.optimizer"), (Schedule, "train.schedule")):
        for config in family.Config.registry.values():
            assert all(f" {prefix}.{name}=" in words for name in config.model_fields)
    assert all(f" data.{name}=" in words for name in DataConfig.model_fields)
    assert "Rarer characters are <unk>." in words


@pytest.mark.parametrize("verb", ["train", "resume", "generate", "runs"])
def test_wrong_words_need_no_torch(verb):
    done = process(verb, "x", "--colour")
    assert done.returncode == 2
    assert done.stderr.startswith("sublayer: ")
    assert "torch" not in done.stdout.splitlines()[-1].split()


@pytest.mark.parametrize(
    ("words", "answer"),
    [
        (["gtp2"], r"unknown paper 'gtp2'; did you mean gpt2"),
        (["gpt2", "--data", "nothing.txt"], r"nothing\.txt: there is no such file"),
        (["gpt2", "train.stpes=3"], r"unknown key 'train.stpes'; did you mean train.steps"),
        (["gpt2", "train.optimizer=adamx"], r"unknown optimizer kind 'adamx'; did you mean adam, adamw"),
        (["gpt2", "train.steps=null"], r"all none, so training would not end; set one of them"),
        (["gpt2", "steps=3"], r"unknown key 'steps'"),
        (["gpt2", "train.steps"], r"'train\.steps' is not a change; write key=value"),
        (["gpt2", "--out", "book.txt"], r"book\.txt: a file is there; choose another folder"),
        (["gpt2", "--processes", "0"], r"processes=0"),
        (["transformer"], r"has no objective for a text"),
        (["gpt2", "--plugin", "no_such_parts"], r"plug-in 'no_such_parts' cannot be imported"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_train_refuses_in_one_line(refuse, tmp_path, words, answer):
    given = words if "--data" in words else [*words, "--data", "book.txt"]
    assert re.search(answer, refuse("train", *given))
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(
    ("words", "answer"),
    [
        (["nowhere"], r"nowhere: there is no such folder, expected a run; sublayer runs lists those there are"),
        (["."], r"not a run, it has no run\.json"),
        (["runs/book", "train.lr=1"], r"train\.lr: cannot change on the way; what can is steps, "),
        (["runs/book", "--step", "7"], r"no checkpoint at step 7; there are 0, 1"),
        (["runs/book", "dim=8"], r"dim: a run keeps its model and its data"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_resume_refuses_in_one_line(run, refuse, words, answer):
    if words[0] == "runs/book":
        run("train", "gpt2", "--data", "book.txt", "--out", "runs/book", *SMALL, "train.steps=1", "--quiet")
    assert re.search(answer, refuse("resume", *words))


def test_a_taken_folder_and_a_diverging_run(run, refuse):
    words = ("train", "gpt2", "--data", "book.txt", "--out", "runs/book", *SMALL, "--quiet")
    assert re.search(r"step \d+: the loss.* is nan\. The last good checkpoint", refuse(*words, "train.lr=1e30"))
    assert "there is a run already; go on with sublayer resume runs/book, or choose another" in refuse(*words)


def test_standard_input_is_kept_for_later(run, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(TEXT.encode())))
    run("train", "gpt2", "--data", "-", "--out", "runs/book", *SMALL, "train.steps=1", "--quiet")
    run("resume", "runs/book", "train.steps=2", "--quiet")
    assert Run.open("runs/book").checkpoints[-1].step == 2


PLUGIN = '''
from torch import nn
from sublayer.nn.part import Part

class Scaled(Part):
    """w x."""
    class Config(Part.Config, tag="scaled_for_training"):
        def params(self, place): return place.dim**2
        def flops(self, place, work): return 2 * work.length * place.dim**2
    def __init__(self, config, place):
        super().__init__()
        self.output = nn.Linear(place.dim, place.dim, bias=False)
    def forward(self, x_BLD, scene, state=None):
        scene.add_loss("size", self.output.weight.square().mean())
        return self.output(x_BLD), None
'''


def test_a_part_of_ones_own(run, tmp_path):
    (tmp_path / "my_scaled.py").write_text(PLUGIN)
    words = ("f=scaled_for_training", "train.steps=1", "--plugin", "my_scaled")
    small = [word for word in SMALL if not word.startswith("f.")]
    said = run("train", "gpt2", "--data", "book.txt", "--out", "runs/book", *small, *words)
    assert json.loads(said.splitlines()[0])["size"] > 0
    assert run("generate", "runs/book", "--plugin", "my_scaled", "--tokens", "3")


FORGETFUL = ["generate", "eval", "resume", "show", "measure"]


def test_a_run_with_a_part_of_ones_own_names_its_plugin(run, refuse, tmp_path, monkeypatch):
    """As a process sees it that has not loaded the plug-in."""
    (tmp_path / "my_scaled.py").write_text(PLUGIN)
    small = [word for word in SMALL if not word.startswith("f.")]
    words = ("f=scaled_for_training", "train.steps=1", "--plugin", "my_scaled", "--quiet")
    run("train", "gpt2", "--data", "book.txt", "--out", "runs/book", *small, *words)
    assert Run.open("runs/book").request.plugins == ("my_scaled",)
    monkeypatch.delitem(Part.Config.registry, "scaled_for_training")
    for verb in FORGETFUL:
        answer = refuse(verb, "runs/book")
        assert "unknown part kind 'scaled_for_training'" in answer
        assert answer.endswith("; it was made with --plugin my_scaled, so add it\n")
