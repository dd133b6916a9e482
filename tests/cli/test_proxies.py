"""`sublayer proxies`: a ready table, and a small study."""

import json

import pytest

TABLE = (
    "set,decoder_params,total_params,ppl\n" + "".join(f"a,{n},{n % 3},{100 - n}\n" for n in range(1, 9)) + "a,9,1,\n"
)
KINDS = 'dense|{"kind": "glu", "activation": "swish"}'
SPACE = (
    "gpt2",
    "dim=8|16|24",
    "layout=(sf)|(sf)x2",
    "s.heads=2",
    "f=" + KINDS,
    "f.inner=each(8|16)",
    "f.inner>0.4*dim",
)
TRAIN = ("train.steps=2", "train.batch=2", "train.length=16", "train.warmup=1")


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "models.csv"
    path.write_text(TABLE, encoding="utf-8")
    return path


def test_a_table(run, table, tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "160")
    ranking = json.loads(run("proxies", "--table", str(table), "--json", "--out", str(tmp_path / "out")))
    assert json.loads((tmp_path / "out" / "ranking.json").read_text()) == ranking
    (models,) = ranking["sets"]
    assert (models["models"], models["dropped"]) == (8, 1)
    assert models["proxies"][0]["name"] == "decoder_params"
    assert models["proxies"][0]["spearman"] == pytest.approx(1)
    title, head, best, _, *_ = run("proxies", "--table", str(table)).splitlines()
    assert title == "a: 8 models, 1 without a perplexity left out"
    assert "Spearman" in head
    assert best.split()[:3] == ["decoder_params", "↑", "1.000"]


def test_a_study(run, refuse, book, tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "160")
    out = tmp_path / "study"
    words = ("proxies", *SPACE, *TRAIN, "--data", str(book), "--out", str(out), "--models", "3")
    named = ("--proxy", "decoder_params", "--proxy", "grad_norm")
    ranking = json.loads(run(*words, *named, "--json"))
    assert json.loads((out / "ranking.json").read_text()) == ranking
    assert sorted(path.name for path in (out / "runs").iterdir()) == ["0000", "0001", "0002"]
    assert (
        (out / "table.csv").read_text().startswith("set,name,layout,dim,decoder_params,grad_norm,loss,ppl,latency_ms")
    )
    assert "sample: 3 models" in run(*words, *named)
    assert "another study is there, with another proxies" in refuse(*words, "--proxy", "snip")
    assert json.loads((out / "proxies.json").read_text())["train"]["eval_every"] == 2


def test_one_line(refuse, table, book):
    assert "name a space or a paper to sample from" in refuse("proxies")
    assert "leave one of them out" in refuse("proxies", "gpt2", "--table", str(table))
    assert "none.csv: there is no such file" in refuse("proxies", "--table", "none.csv")
    assert "the space is empty" in refuse("proxies", "gpt2", "--data", str(book))
    few = ("--models", "100000000000000000000")
    assert "models=100000000000000000000: expected 3 to 100,000" in refuse("proxies", *SPACE, "--data", str(book), *few)
    assert "unknown paper 'gtp2'" in refuse("proxies", "gtp2", "--data", str(book))
    table.write_text("ppl,snip\n1,2\n1,?\n")
    assert "line 3, column snip: expected a number, got '?'" in refuse("proxies", "--table", str(table))


def test_help(run):
    said = run("proxies", "--help")
    assert "--table" in said
    assert "--latency" in said
