"""`sublayer compare`: variants as they are typed, a table as people and programs read it, refusals in one line."""

import json
from pathlib import Path

import pytest

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
