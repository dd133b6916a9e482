"""`sublayer eval`: a trained run scored on its own test, on other texts, by length and by position."""

import io
import json
import math
import re
import sys

import pytest

import sublayer

TINY = {
    "dim": 16,
    "layout": "(sf)x2",
    "s.heads": 2,
    "f.inner": 16,
    "train.steps": 2,
    "train.batch": 2,
    "train.warmup": 1,
}
BOOK = "".join(f"line {n} of the naïve text, as it is\n" for n in range(60))


def trained(folder, name, paper, **changes):
    return str(sublayer.train(paper, str(folder / "book.txt"), folder / name, {**TINY, **changes}, quiet=True).path)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """With a text and what a cache keeps of it."""
    folder = tmp_path_factory.mktemp("eval")
    (folder / "book.txt").write_text(BOOK, encoding="utf-8")
    (folder / "other.txt").write_text("another text, not so naïve\n" * 5, encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SUBLAYER_CACHE", str(folder / "cache"))
        yield folder


@pytest.fixture(scope="module")
def gpt2(folder):
    return trained(folder, "gpt2", "gpt2", **{"train.length": 16, "position.limit": 40})


@pytest.fixture(scope="module")
def xl(folder):
    words = {"embedding": "token", "head": "tied", "s.memory.length": 8, "position.scope": "stack"}
    return trained(folder, "xl", "transformer-xl", **words, **{"train.length": 8, "data.tokenizer": "char"})


@pytest.fixture
def told(run):
    """`told("runs/book")` → what `--json` printed, read."""
    return lambda *words: json.loads(run("eval", *words, "--json"))


def test_its_own_test_split(run, told, gpt2):
    score = told(gpt2)
    assert (score["run"], score["step"], score["split"], score["length"]) == (gpt2, 2, "test", 16)
    assert score["tokens"] == score["bytes"] == round(len(BOOK.encode()) * 0.05) - 1
    assert score["bits_per_byte"] == pytest.approx(score["loss"] / math.log(2))
    assert score["bits_per_character"] > score["bits_per_byte"]
    assert score["loss"] == pytest.approx(math.log(256), rel=0.1)
    page = run("eval", gpt2)
    assert f"test split: {score['text']}" in " ".join(page.split())
    assert "segments of 16 tokens, each without context" in page
    assert re.search(rf"^loss +{score['loss']:.4f}$", page, re.MULTILINE)
    assert re.search(rf"^bits per character +{score['bits_per_character']:.4f}$", page, re.MULTILINE)
    assert re.search(rf"^tokens +{score['tokens']}$", page, re.MULTILINE)


def test_another_split_and_another_text(told, run, gpt2, folder):
    assert told(gpt2, "--split", "valid")["tokens"] < told(gpt2, "--split", "train")["tokens"]
    score = told(gpt2, "--data", str(folder / "other.txt"))
    assert (score["split"], score["tokens"], score["words"]) == ("all", 139, 25)
    assert "of 16" in run("eval", gpt2, "--data", str(folder / "other.txt"))
    part = told(gpt2, "--data", str(folder / "other.txt"), "--split", "valid")
    assert part["split"] == "valid"
    assert part["tokens"] < 10


def test_standard_input(told, gpt2, folder, monkeypatch):
    content = (folder / "other.txt").read_bytes()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))
    assert told(gpt2, "--data", "-")["loss"] == told(gpt2, "--data", str(folder / "other.txt"))["loss"]


def test_a_text_too_short_is_named(refuse, gpt2, tmp_path):
    (tmp_path / "one.txt").write_text("x")
    said = r"one\.txt: it holds 1 token, at least 2 are needed to predict one"
    assert re.search(said, refuse("eval", gpt2, "--data", str(tmp_path / "one.txt")))


def test_a_folder_with_splits_of_its_own(told, gpt2, tmp_path):
    for name in ("train", "valid", "test"):
        (tmp_path / f"{name}.txt").write_text(f"{name} " * 7, encoding="utf-8")
    assert told(gpt2, "--data", str(tmp_path))["tokens"] == 34
    assert told(gpt2, "--data", str(tmp_path), "--split", "train")["tokens"] == 41


def test_an_empty_test_is_said(run, told, folder):
    path = trained(folder, "untested", "gpt2", **{"train.length": 16, "data.splits.test": 0})
    score = told(path)
    assert (score["split"], score["asked"]) == ("valid", "test")
    assert "test is empty, so valid is scored" in run("eval", path)


def test_windows_and_batches(run, told, gpt2):
    afresh, sliding = told(gpt2), told(gpt2, "--stride", "4")
    assert sliding["tokens"] == afresh["tokens"]
    assert sliding["loss"] != afresh["loss"]
    assert told(gpt2, "--stride", "16")["loss"] == pytest.approx(afresh["loss"], rel=1e-6)
    assert told(gpt2, "--batch", "1")["loss"] == pytest.approx(afresh["loss"], rel=1e-6)
    assert told(gpt2, "--limit", "9")["tokens"] == 9
    assert "windows of 16 tokens, 4 apart" in run("eval", gpt2, "--stride", "4")


def test_memory(run, told, xl):
    score = told(xl)
    assert (score["length"], score["memory"]) == (8, 8)
    losses = {told(xl, "--memory", memory)["loss"] for memory in ("0", "4", "8", "16")}
    assert len(losses) == 4
    assert score["loss"] in losses
    assert "segments of 8 tokens, with 8 tokens of memory" in run("eval", xl)
    assert "each without context" in run("eval", xl, "--memory", "0")
    assert score["characters"] == score["tokens"]
    assert score["bytes"] > score["tokens"]


def test_lengths(run, told, gpt2):
    rows = told(gpt2, "--lengths", "16,32")["lengths"]
    assert [(row["length"], row["times"]) for row in rows] == [(16, 1), (32, 2)]
    assert rows[0]["loss"] == told(gpt2)["loss"]
    lines = run("eval", gpt2, "--lengths", "16, 32").splitlines()
    assert re.match(rf" +32 +2× +{rows[1]['loss']:.4f} ", lines[-1])


def test_positions(run, told, gpt2):
    losses = told(gpt2, "--positions")["positions"]
    assert len(losses) == 16
    lines = run("eval", gpt2, "--positions").splitlines()
    assert re.match(rf" +1 +{losses[0]:.4f} +█+", lines[-5])
    assert re.match(rf" *9–16 +{sum(losses[8:]) / 8:.4f} +█+", lines[-1])


def test_a_checkpoint_of_choice(told, gpt2):
    assert told(gpt2, "--step", "1")["step"] == 1
    assert told(gpt2, "--step", "1")["loss"] != told(gpt2)["loss"]


@pytest.mark.parametrize(
    ("words", "answer"),
    [
        (["--stride", "17"], r"stride=17: .*length=16.*use a stride up to 16"),
        (["--stride", "0"], r"stride=0: expected at least 1"),
        (["--length", "0"], r"length=0: expected at least 1"),
        (["--length", "41"], r"length=41: the model has 40 learned positions"),
        (["--lengths", "16,80"], r"length=80: the model has 40 learned positions; use lengths up to 40"),
        (["--lengths", "16,many"], r"--lengths '16,many': .*write --lengths 128,256,512"),
        (["--lengths", "16", "--positions"], r"lengths: .*leave out length, positions and ages"),
        (["--positions", "--stride", "2"], r"leave out one of the two"),
        (["--memory", "8"], r"memory=8: the model has no segment memory"),
        (["--limit", "0"], r"limit=0"),
        (["--split", "tset"], r"split 'tset': .*use one of train, valid, test"),
        (["--step", "7"], r"no checkpoint at step 7; there are 1, 2"),
        (["--data", "missing.txt"], r"missing\.txt"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_one_line(refuse, gpt2, words, answer):
    assert re.search(answer, refuse("eval", gpt2, *words))


def test_no_run(refuse, tmp_path):
    assert "there is no such folder" in refuse("eval", str(tmp_path / "none"))
    assert "not a run" in refuse("eval", str(tmp_path))


def test_an_encoder_is_scored_by_its_own_objective(run, told, refuse, folder):
    path = trained(folder, "bert", "bert-base", **{"train.length": 16})
    assert told(path)["loss"] > 0
    assert re.search(r"^loss +\d", run("eval", path), re.MULTILINE)
    assert "is not scored token by token" in refuse("eval", path, "--stride", "4")


def test_a_text_that_has_changed(refuse, told, tmp_path, folder):
    (tmp_path / "book.txt").write_text(BOOK, encoding="utf-8")
    path = trained(tmp_path, "run", "gpt2", **{"train.length": 16})
    (tmp_path / "book.txt").write_text(BOOK[40:], encoding="utf-8")
    assert "has changed since the run began" in refuse("eval", path)
    assert told(path, "--data", str(tmp_path / "book.txt"))["split"] == "all"
