"""`sublayer compare`: variants as they are typed, a table as people and programs read it, refusals in one line."""

import json
from pathlib import Path

import pytest

from sublayer.cli.lengths import print_lengths, read_lengths, shown
from sublayer.comparison import LengthTable
from sublayer.nn.layout import par
from sublayer.progress.trainings import progress_of
from tests.training.tiny import TEXT

SMALL = ("dim=16", "layout=(sf)x2", "s.heads=2", "f.inner=32", "train.batch=2", "train.length=16", "train.warmup=1")
ROTARY = "gpt2 position=rotary s.heads=4"


@pytest.fixture(autouse=True)
def book(tmp_path, monkeypatch):
    """In the current folder, whose cache is its own."""
    monkeypatch.setenv("SUBLAYER_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "book.txt").write_text(TEXT, encoding="utf-8")


def test_a_comparison_from_the_command_line(run, tmp_path):
    words = (
        "compare",
        "gpt2",
        ROTARY,
        "--data",
        "book.txt",
        "--tokens",
        "0.1k",
        "--seeds",
        "2",
        "--no-measure",
        *SMALL,
    )
    said = run(*words)
    lines = said.splitlines()
    assert lines[1].split()[:3] == ["variant", "layout", "params"]
    assert " ".join(lines[0].split()) == "valid valid"
    assert lines[1].split()[3:5] == ["loss", "bits/byte"]
    assert "test training latency, memory," in " ".join(said.split())
    assert "variant bits/byte tokens/s measured measured" in " ".join(said.split())
    assert sorted(line.split("  ")[0] for line in lines[2:4]) == ["gpt2", ROTARY.removeprefix("gpt2 ")]
    assert sum("is the first" in line for line in lines) == 1
    assert "95 % over 2 seeds (Student's t). Each read 128 tokens." in said
    out = "comparisons/gpt2-gpt2-position=rotary-s.heads=4"
    assert lines[-1] == f"sublayer report {out} · sublayer runs {out}/runs"
    table = json.loads(run(*words, "--json"))
    assert table == json.loads((tmp_path / out / "table.json").read_text())
    assert [row["config"]["stack"]["alphabet"]["s"]["heads"] for row in table["rows"]] == [2, 4]
    assert table["asked"]["seeds"] == [0, 1]
    assert [progress_of(tmp_path / out / place)[0] for place in table["rows"][0]["runs"]] == [1.0, 1.0]
    assert progress_of(tmp_path / "nowhere") == (0.0, 0.0)


@pytest.mark.parametrize(("steps", "tokens", "read"), [("1", "1k", 32), ("9", "64", 64)])
def test_of_two_budgets_the_first_that_is_spent_ends(run, steps, tokens, read):
    how = ("--steps", steps, "--tokens", tokens, "--seeds", "1", "--no-measure", "--json")
    told = json.loads(run("compare", "gpt2", ROTARY, "--data", "book.txt", "--out", "c", *how, *SMALL))
    assert [row["tokens"] for row in told["rows"]] == [read, read]
    assert "with --tokens or --minutes, whichever is spent first" in " ".join(run("compare", "--help").split())


def test_equal_parameters_and_learning_rates(run):
    how = ("--steps", "2", "--seeds", "1", "--lr", "1e-4,1e-2", "--equal-params", "first", "--no-measure", "--out", "c")
    said = run("compare", "gpt2 position=alibi", ROTARY, "--data", "book.txt", *how, *SMALL)
    assert "One seed: no ±, no verdict." in said
    assert "Parameters are equal to within" in said
    assert "Learning rates: position=alibi 0." in said


def test_variants_with_names(run, refuse):
    how = ("--data", "book.txt", "--steps", "1", "--seeds", "1", "--no-measure", "--json")
    named = ("base: gpt2", "par of four: gpt2 layout=par(5)", "unnamed: gpt2 position=alibi")
    table = json.loads(run("compare", *named, *how, *SMALL))
    assert [row["name"] for row in table["rows"]] == ["base", "par of four", "unnamed"]
    assert [row["slug"] for row in table["rows"]] == ["base", "par-of-four", "unnamed"]
    assert table["rows"][1]["layout"] == par("(sf)x2", 5)
    assert Path("comparisons/base-par-of-four-unnamed/table.json").exists()


LENGTHS = ("compare", "a: gpt2", f"b: {ROTARY}", "--data", "book.txt", "--steps", "1", "--seeds", "1", "--no-measure")
AT_ANY = tuple(word for word in SMALL if not word.startswith("train.length"))


def test_a_comparison_by_length(run, tmp_path):
    words = (*LENGTHS, *AT_ANY, "--lengths", "8,16")
    said = run(*words)
    lines = [" ".join(line.split()) for line in said.splitlines()]
    assert lines[:2] == ["loss on valid:", "variant 8 16"]
    assert "memory of training, about 16 tokens a step at every length, in MB:" in lines
    assert lines.count("a — —") == 3
    out = "comparisons/a-b-lengths"
    assert lines[-1] == f"sublayer report {out} · sublayer report {out}/length-16"
    table = json.loads(run(*words, "--json"))
    assert table == json.loads((tmp_path / out / "lengths.json").read_text())
    assert [row["name"] for row in table["rows"]] == ["a", "b"]


def test_lengths_as_they_are_typed():
    assert read_lengths("512,2k, 8K") == [512, 2048, 8192]
    assert [shown(length) for length in (512, 1000, 2048, 2**20)] == ["512", "1000", "2k", "1024k"]


def test_figures_by_length_with_their_powers(capsys):
    """Times and memory have a power, and a loss has none."""
    points = [
        {"length": length, "rows": 1, "loss": {"mean": 2.0, "low": 1.5, "high": 2.5}, "step_memory": 1000 * length**2}
        | {"latency": {"latency": 1e-3 * length, "low": 0, "high": 1}, "diverged": {"1": "why"} if length > 8 else {}}
        for length in (8, 1024)
    ]
    row = {"name": "a", "points": points, "exponents": {"latency": 1.0, "step_memory": -0.001}}
    folders = {"1024": "length-1024"}
    table = {"lengths": [8, 1024], "step_tokens": 9, "rows": [row], "folders": folders}
    print_lengths(LengthTable.model_validate(table), "out")
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert "variant 8 1k power" in lines
    for line in (
        "a 2.000 ± 0.500 2.000 ± 0.500",
        "a 8.00 1024.00 1.00",
        "a 0.1 1048.6 0.00",
        "a, length 1,024, seed 1: why",
    ):
        assert line in lines


@pytest.mark.parametrize(
    ("lengths", "more", "said"),
    [
        ("0", (), "--lengths '0': expected whole numbers of at least 1 with commas, such as 512,2k,8k"),
        ("abc", (), "--lengths 'abc': expected"),
        ("", (), "--lengths '': expected"),
        ("8,", (), "--lengths '8,': expected"),
        ("8,-16", (), "--lengths '8,-16': expected"),
        ("8", (), "lengths: 8; a curve needs at least two"),
        ("2k,2048", (), "lengths: 2,048 is given twice"),
        ("8,16", ("train.length=8",), "train.length=8: it is set to each of the lengths; leave it out"),
        ("8,2k", (), "length 2,048: a: train.length=2048: the model has 1024 learned positions"),
    ],
)
def test_lengths_that_cannot_be(refuse, lengths, more, said):
    assert said in refuse(*LENGTHS, *AT_ANY, *more, f"--lengths={lengths}", "--out", "out")
    assert not Path("out").exists()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("gtp2", "gpt2", "--steps", "1"), "unknown paper 'gtp2'"),
        (("gpt2", "--steps", "1"), "1 variant: a comparison needs at least two"),
        (("gpt2", "gpt2", "--steps", "1"), "gpt2: given twice"),
        (("gpt2", "bert-base", "--steps", "1"), "learn different things"),
        (("gpt2", "llama"), "the budget is missing"),
        (("gpt2", "llama", "--tokens", "many"), "--tokens 'many': expected a number"),
        (("gpt2", "llama", "--tokens", ""), "--tokens '': expected a number"),
        (("gpt2", "llama", "--steps", ""), "--steps '': expected a number"),
        (("gpt2", "llama", "--steps", "1", "--lr", ""), "--lr '': expected a number"),
        (("gpt2", "", "--steps", "1"), "'' is not a variant: it is empty; write"),
        (("gpt2", ": llama", "--steps", "1"), "': llama' is not a variant: its name is empty; write"),
        (("gpt2", "a:", "--steps", "1"), "'a:' is not a variant: it is empty; write"),
        (("a: gpt2", "a: llama", "--steps", "1"), "a: given twice"),
        (
            ("gpt2 s.heads=2", "gpt2 layout=par(9,2)", "--steps", "1"),
            "gpt2 layout=par(9,2): par(9) of 2 sublayers leaves 0",
        ),
        (("gpt2", "llama", "--steps", "0"), "--steps 0: expected a number above 0"),
        (("gpt2", "llama", "--steps", "1", "--seeds", "0"), "seeds: none"),
        (("gpt2", "llama", "--steps", "1", "--seeds", f"1,{2**64}"), "train.seed: input should be less than"),
        (("gpt2", "llama", "--steps", "1", "--seeds", "x"), "--seeds 'x': expected a number of seeds"),
        (("gpt2", "llama", "--steps", "1", "--lr", "fast"), "--lr 'fast': expected a number"),
        (("gpt2", "llama", "--steps", "1", "--workers", "0"), "workers=0: at least 1"),
        (("gpt2", "gpt2 'dim", "--steps", "1"), "is not a variant"),
        (("gpt2", "gpt2 dim", "--steps", "1"), "'dim' is not a change"),
        (("gpt2", "gpt2 train.steps=2", "--steps", "1"), "would not be the same for all"),
        (("gpt2", "llama", "--steps", "1", "--data", "no.txt"), "no.txt"),
    ],
)
def test_refusals(refuse, words, said):
    data = () if "--data" in words else ("--data", "book.txt")
    small = [word for word in SMALL if not word.startswith(("s.", "f."))]
    assert said in refuse("compare", *words, *data, *small, "--out", "out")
    assert not Path("out").exists()
