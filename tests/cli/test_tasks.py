"""Tasks on the command line: trained, resumed, scored, compared, listed; and refused in one line."""

import json
import re

import pytest

SMALL = ["dim=16", "layout=(sf)x1", "s.heads=2", "f.inner=16", "train.steps=2", "train.batch=2", "train.length=8"]
WALK = ["--data", "task:random-walk", "data.size=3", "data.length=7", "data.episodes=40", "data.valid=4", "data.test=4"]


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SUBLAYER_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def walk(run):
    run("train", "gpt2", *WALK, "--out", "runs/walk", *SMALL, "--quiet")
    return "runs/walk"


def test_trained_resumed_and_scored(run, refuse, walk):
    assert json.loads(run("resume", walk, "train.steps=3").splitlines()[-1])["valid_accuracy"] >= 0
    told = json.loads(run("eval", walk, "--json"))
    assert told["text"] == "task:random-walk"
    assert told["split"] == "test"
    assert (told["episodes"], told["answers"], told["length"]) == (4, 28, None)
    assert 0 <= told["sequence_accuracy"] <= told["accuracy"] <= 1
    page = run("eval", walk, "--split", "valid")
    assert "valid split: task:random-walk" in page
    assert re.search(r"sequence accuracy +[01]\.", page)
    assert json.loads(run("eval", walk, "--limit", "9", "--json"))["episodes"] == 1
    assert run("runs", "runs")
    assert "does not score the 4 ids of the vocabulary" in refuse("generate", walk, "--prompt", "reset left")
    for words in (["--stride", "2"], ["--memory", "3"], ["--lengths", "2,4"], ["--positions"]):
        assert f"{words[0][2:]}: task:random-walk is not scored token by token" in refuse("eval", walk, *words)
    assert "is none of the symbols forward left right reset" in refuse("eval", walk, "--data", "book.txt")


@pytest.fixture(autouse=True)
def book(tmp_path):
    (tmp_path / "book.txt").write_text("a text of words\n" * 99)


def test_another_task_has_other_symbols(refuse, run, walk):
    said = refuse("eval", walk, "--data", "task:copy")
    assert "task:copy: is written in 0 1 2" in said
    assert "unknown task 'wlak'; expected one of algorithmic, copy" in refuse("eval", walk, "--data", "task:wlak")
    assert "has 9 classes; use the task that the model was trained on" in refuse(
        "eval", walk, "--data", "task:random-walk"
    )


@pytest.mark.parametrize(
    ("words", "answer"),
    [
        (["gpt2", "--data", "task:wlak"], r"unknown task 'wlak'; expected one of algorithmic, copy"),
        (["gpt2", "--data", "task:copy", "data.length=0"], r"data\.length: input should be greater than or equal to 1"),
        (["gpt2", "--data", "task:algorithmic", "data.variables=0"], r"data\.variables: input should be greater"),
        (["gpt2", "--data", "task:random-walk", "data.size=1"], r"data\.size: input should be .* 2, got 1"),
        (["gpt2", "--data", "task:copy", "data.tokenizer=bpe"], r"unknown key 'data\.tokenizer'"),
        (["bert-base", "--data", "task:copy"], r"encoder: has no objective for task:copy"),
    ],
)
def test_train_refuses_in_one_line(refuse, tmp_path, words, answer):
    assert re.search(answer, refuse("train", *words))
    assert not (tmp_path / "runs").exists()
    assert not (tmp_path / "cache").exists()


@pytest.mark.parametrize(
    "words", [["supernet", "gpt2", "dim=24"], ["proxies", "gpt2", "dim=24|48"], ["search", "sublayers"]]
)
def test_verbs_that_read_texts_say_so(refuse, words):
    assert "task:copy: is a task, expected a text" in refuse(*words, "--data", "task:copy")


def test_compared(run):
    how = ("--steps", "2", "--seeds", "2", "--no-measure", "--json")
    words = [word for word in SMALL if not word.startswith("train.steps")]
    told = json.loads(run("compare", "gpt2", "gpt2 position=rotary", *WALK, *words, *how, "--out", "both"))
    for row in told["rows"]:
        assert 0 <= row["accuracy"]["mean"] <= 1
        assert row["bits_per_byte"] is row["perplexity"] is None
        assert row["test"]["accuracy"]["mean"] >= 0
        assert row["config"]["head"] == {"kind": "label", "classes": 9, "bias": False}


def test_listed(run):
    page = run("list", "--tasks")
    assert "task:random-walk" in page
    told = {row["name"]: row for row in json.loads(run("list", "--tasks", "--json"))}
    assert told["copy"]["keys"]["test_length"] == 400
    assert told["algorithmic"]["about"].startswith("Statements are drawn")
