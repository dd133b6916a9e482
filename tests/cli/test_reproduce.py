"""`sublayer reproduce`: a list of claims, a page, and what is wrong in one line."""

import json

import pytest

WALK = "feedback/random-walk"
TINY = (
    *("dim=8", "layout=(sf)", "s.heads=2", "s.memory.length=8", "position.clip=8", "train.steps=2", "train.batch=4"),
    *("train.warmup=1", "train.grow_from=2", "train.grow_over=2", "data.episodes=20", "data.valid=4", "data.test=4"),
    "data.length=7",
)


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.setenv("SUBLAYER_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.chdir(tmp_path)


def test_claims_are_listed(run):
    lines = run("reproduce").splitlines()
    assert lines[0].split() == ["claim", "what", "the", "paper", "says", "scaled", "down"]
    assert any(line.startswith(WALK) for line in lines)
    told = json.loads(run("reproduce", "--json"))
    assert {"name", "source", "says", "scale"} == set(told[0])


def test_a_claim_from_the_command_line(run, tmp_path):
    words = ("reproduce", WALK, *TINY, "--seeds", "1")
    said = run(*words)
    lines = said.splitlines()
    assert lines[0].startswith(f"{WALK}  Fan et al. 2020, Table 1")
    assert "scaled down: 2 layers of width 64 without dropout for 4 of width 256" in said
    assert "changed: dim=8, layout=(sf)" in said
    figures = [line.split()[-3] for line in lines if line.startswith(("Feedback  ", "Transformer  "))]
    assert figures == ["100.0", "68.0"]
    assert any(line.startswith("Feedback before Transformer: ") for line in lines)
    out = f"reproductions/{WALK}"
    assert lines[-1] == f"sublayer report {out} · sublayer runs {out}/runs"
    told = json.loads(run(*words, "--json"))
    assert told == json.loads((tmp_path / out / "claim.json").read_text())


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("feedback/walk",), "unknown claim 'feedback/walk'; did you mean feedback/random-walk"),
        ((WALK, "dim"), "'dim' is not a change; write key=value"),
        ((WALK, "dim=7"), "dim"),
        ((WALK, "--seeds", "some"), "--seeds 'some': expected a number of seeds"),
        ((WALK, "train.grow_from=120"), "train.grow_from=120: episodes of task:random-walk have up to"),
    ],
)
def test_what_is_wrong_is_told_in_a_line(refuse, tmp_path, words, said):
    assert said in refuse("reproduce", *words)
    assert not (tmp_path / "reproductions").exists()
