"""`sublayer supernet`: what it prints, and what it refuses."""

import json

import pytest

from sublayer.cli.supernet import read_numbers, read_pairs
from tests.training import tiny

WORDS = tuple(f"{key}={value}" for key, value in {**tiny.SMALL, "train.steps": 2}.items())


@pytest.fixture(scope="module")
def searched(book, tmp_path_factory):
    """A search that has ended: another call reads it."""
    out = tmp_path_factory.mktemp("supernet") / "out"
    words = ("supernet", "gpt2", *WORDS, "--data", str(book), "--out", str(out), "--steps", "10", "--seeds", "1")
    return (*words, "--par", "2", "search.log_every=5")


def test_a_table_for_people(run, searched):
    lines = run(*searched).splitlines()
    assert lines[0].split() == ["seed", "word", "layout", "#s", "#f", "identities", "perplexity"]
    assert lines[1].split()[0] == "0"
    assert set(lines[1].split()[1]) <= set("sf-")
    assert lines[2].startswith("base")
    assert lines[3].startswith("PAR(2)")
    assert lines[4].startswith("mean number in each third: s ")
    assert "figures.json" in "".join(lines[5:])


def test_json_for_programs(run, searched):
    shown = json.loads(run(*searched, "--json"))
    out = searched[searched.index("--out") + 1]
    with open(f"{out}/figures.json") as file:
        assert json.load(file) == shown
    assert [point["p"] for point in shown["figure4"]["points"]] == [2.0]


def test_without_retraining(run, book, tmp_path):
    words = ("supernet", "gpt2", *WORDS, "--data", str(book), "--out", str(tmp_path / "out"), "--steps", "10")
    shown = json.loads(run(*words, "--seeds", "1", "--no-retrain", "--single-path", "--letters", "fs", "--json"))
    assert shown["base"] is None
    assert shown["letters"] == "fs"
    assert not (tmp_path / "out" / "runs").exists()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--letters", "sg"), "letters=sg: the alphabet has no 'g'; it has s, f"),
        (("--places", "1"), "sublayers=1: expected 2 to 10,000 to search the order of"),
        (("--sublayers", "100000000000000000000"), "sublayers=100000000000000000000: expected 2 to 10,000"),
        (("--seeds", "0"), "--seeds 0: expected 1 to 1,000 searches"),
        (("--seeds", "100000000000000000000"), "--seeds 100000000000000000000: expected 1 to 1,000 searches"),
        (("--par", "two"), "--par: 'two' is not a number; write for example --par 2,3,5,8"),
        (("--par", "50"), "par(50) of 4 sublayers leaves 0 attentions"),
        (
            ("--latency-weight", "1", "--latencies", "s=1"),
            "latency_weight=1 needs the latency of 'f'; give seconds",
        ),
        (("--latencies", "s=1"), "--latencies: they count only with --latency-weight"),
        (("search.shrae=0.3",), "unknown key 'search.shrae'; did you mean search.share"),
        (("train.length=500",), "tokens are too few for one window of 500"),
        (("--steps", "0"), "search.steps: input should be greater than or equal to 1, got 0"),
    ],
)
def test_what_is_refused(refuse, book, tmp_path, words, said):
    others = (word for word in WORDS if word.split("=")[0] != words[0].split("=")[0])
    given = ("supernet", "gpt2", *others, "--data", str(book), "--out", str(tmp_path / "out"), *words)
    assert said in refuse(*given)
    assert not (tmp_path / "out").exists()


def test_another_request_in_the_same_folder(run, refuse, searched):
    run(*searched)
    assert "this search began with search.lr=0.01, not 0.5" in refuse(*searched, "search.lr=0.5")


def test_no_such_text(refuse, tmp_path):
    assert "no such file" in refuse("supernet", "gpt2", "--data", str(tmp_path / "none.txt"))


def test_pairs_and_numbers():
    assert read_pairs("--latencies", "s=0.004, f=2e-3") == {"s": 0.004, "f": 0.002}
    assert read_pairs("--latencies", "") == {}
    assert read_numbers("--par", "2,3.5") == [2.0, 3.5]
    with pytest.raises(ValueError, match="--latencies: 'fast' is not a number"):
        read_pairs("--latencies", "s=fast")
