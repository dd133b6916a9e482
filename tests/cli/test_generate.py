"""`sublayer generate`: a trained model goes on with a text."""

import json
import re

import pytest

import sublayer
from sublayer.generation.native import served
from tests.training import tiny


@pytest.fixture(scope="module")
def book(tmp_path_factory):
    folder = tmp_path_factory.mktemp("generate")
    (folder / "book.txt").write_text(tiny.TEXT, encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SUBLAYER_CACHE", str(folder / "cache"))
        yield folder / "book.txt"


@pytest.fixture(scope="module", params=["gpt2", "transformer-xl"])
def path(book, request):
    """A run, in characters, so that every id is one."""
    out = book.parent / request.param
    return str(tiny.train(book, out, request.param, data__tokenizer="char", train__save_every=2).path)


@pytest.fixture
def write(run, path):
    """`write("--tokens", "3")` → what it wrote, without the end of the line."""
    return lambda *words: run("generate", path, *words)[:-1]


def test_a_stream_is_the_text(write, path):
    text = write("--prompt", "line 1", "--tokens", "12", "--seed", "3")
    assert len(text) == 6 + 12
    assert text.startswith("line 1")
    (whole,) = json.loads(write("--prompt", "line 1", "--tokens", "12", "--seed", "3", "--json"))
    assert whole == {"prompt": "line 1", "text": text[6:]}
    assert sublayer.load(path).generate("line 1", tokens=12, seed=3) == text[6:]


def test_seeds(write):
    words = ("--prompt", "line", "--tokens", "16", "--temperature", "1")
    one, again, other = (write(*words, "--seed", seed) for seed in ("1", "1", "2"))
    assert one == again != other
    greedy = [write("--prompt", "line", "--tokens", "8", "--temperature", "0", "--seed", seed) for seed in ("1", "2")]
    assert greedy[0] == greedy[1]
    assert greedy[0] == write("--prompt", "line", "--tokens", "8", "--top-k", "1")


def test_several_prompts_stand_side_by_side(write):
    words = ("--tokens", "5", "--seed", "1", "--temperature", "0")
    texts = write("--prompt", "line", "--prompt", "the naïve text", *words).split("\n\n")
    told = json.loads(write("--prompt", "line", "--prompt", "the naïve text", *words, "--json"))
    assert [one["prompt"] for one in told] == ["line", "the naïve text"]
    assert "\n\n".join(one["prompt"] + one["text"] for one in told) == "\n\n".join(texts)
    assert told[0]["text"] == json.loads(write("--prompt", "line", *words, "--json"))[0]["text"]


def test_without_a_prompt(write):
    assert len(write("--tokens", "7")) == 7
    assert write("--prompt", "line", "--tokens", "0") == "line"


def test_beams(write):
    text = write("--prompt", "line", "--tokens", "6", "--beam", "3")
    assert len(text) == 10
    assert text == write("--prompt", "line", "--tokens", "6", "--beam", "3", "--seed", "9")
    assert write("--prompt", "line", "--tokens", "6", "--beam", "1", "--length-penalty", "0") == write(
        "--prompt", "line", "--tokens", "6", "--temperature", "0"
    )
    told = write("--prompt", "line", "--tokens", "20", "--beam", "2", "--no-repeat", "2")
    pairs = [told[n : n + 2] for n in range(len(told) - 1)]
    assert len(pairs) == len(set(pairs))


def test_a_text_that_ends_it(write):
    words = ("--prompt", "line", "--tokens", "40", "--temperature", "1", "--seed", "5")
    whole = write(*words)
    stop = whole[10]
    assert write(*words, "--stop", stop) == "line" + whole[4:].split(stop)[0]


def test_a_checkpoint_of_choice(write):
    words = ("--prompt", "line", "--tokens", "30", "--temperature", "0.3")
    assert write(*words) == write(*words, "--step", "4")
    assert write(*words, "--step", "2")


def test_a_feedback_memory_with_and_without_native_code(run, book, tmp_path, monkeypatch):
    changes = {"data__tokenizer": "char", "s__memory__length": 8, "position__clip": 8}
    trained = tiny.train(book, tmp_path / "feedback", "feedback", **changes)
    words = ("generate", str(trained.path), "--prompt", "line 1", "--prompt", "it", "--tokens", "24", "--seed", "3")
    fast = run(*words)
    monkeypatch.setattr(served, "load", lambda source, user: None)
    assert run(*words) == fast


@pytest.mark.parametrize(
    ("words", "answer"),
    [
        (["--tokens", "-1"], r"tokens: -1 is no number of ids"),
        (["--temperature", "-1", "--prompt", "x"], r"temperature: -1\.0 is not a temperature"),
        (["--top-k", "0"], r"top_k: 0 leaves no id to choose"),
        (["--top-p", "2"], r"top_p: 2\.0 is not a probability"),
        (["--beam", "0"], r"--beam 0: expected at least 1; leave it out to sample"),
        (["--beam", "2", "--no-repeat", "-1"], r"--no-repeat -1: expected 0 or more"),
        (["--length-penalty", "3"], r"^sublayer: --length-penalty 3.0: only beam search uses it"),
        (["--no-repeat", "2"], r"--no-repeat 2: only beam search uses it; add --beam 4"),
        (["--beam", "3", "--top-k", "5"], r"--top-k 5: beam search does not sample; leave it out, or --beam 3"),
        (["--stop", ""], r"stop: an empty text would end everything at once"),
        (["--step", "9"], r"no checkpoint at step 9; there are 2, 4"),
        (["--tokens", "many"], r"--tokens.*many"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_one_line(refuse, path, words, answer):
    assert re.search(answer, refuse("generate", path, *words))


def test_no_run_and_no_writer(refuse, book, tmp_path):
    assert "there is no such folder, expected a run" in refuse("generate", str(tmp_path / "nowhere"))
    assert "not a run" in refuse("generate", str(tmp_path))
    encoder = tiny.train(book, tmp_path / "bert", "bert-base", train__steps=1)
    assert re.search("Encoder does not write from left to right; use a decoder", refuse("generate", str(encoder.path)))
