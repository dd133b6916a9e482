"""`sublayer runs`: what was trained, and how far it came."""

import json
import shutil

import pytest

from tests.training import tiny


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    (folder / "book.txt").write_text(tiny.TEXT, encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SUBLAYER_CACHE", str(folder / "cache"))
        tiny.train(folder / "book.txt", folder / "all" / "gpt", "gpt2", train__steps=3)
        tokens = {"train__steps": None, "train__tokens": 40}
        tiny.train(folder / "book.txt", folder / "all" / "more" / "bert", "bert-base", **tokens)
        yield folder / "all"


def test_json(run, folder):
    gpt, bert = json.loads(run("runs", str(folder), "--json"))
    assert (gpt["run"], gpt["layout"], gpt["dim"]) == (str(folder / "gpt"), "(sf)x2", 16)
    assert (gpt["steps"], gpt["of"], gpt["tokens"], gpt["checkpoints"]) == (3, 3, 96, [2, 3])
    lines = [json.loads(line) for line in (folder / "gpt" / "metrics.jsonl").read_text().splitlines()]
    assert gpt["valid_loss"] == min(line["valid_loss"] for line in lines if "valid_loss" in line)
    assert gpt["params"] > 1000
    assert gpt["minutes"] >= 0
    assert (bert["run"], bert["of"], bert["tokens"]) == (str(folder / "more" / "bert"), None, 64)
    assert bert["valid_bits_per_byte"] is None


def test_table(run, folder, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    head, gpt, bert = run("runs", str(folder)).splitlines()
    titles = ["run", "layout", "dim", "params", "steps", "tokens", "valid loss", "valid bits/byte", "minutes"]
    assert [title for title in titles if title in head] == titles
    assert gpt.split()[:3] == [str(folder / "gpt"), "(sf)x2", "16"]
    assert "—" in bert


def test_one_run_and_the_usual_folder(run, folder, monkeypatch):
    assert len(json.loads(run("runs", str(folder / "gpt"), "--json"))) == 1
    monkeypatch.chdir(folder.parent)
    shutil.copytree(folder, "runs")
    assert len(json.loads(run("runs", "--json"))) == 2


def test_a_run_on_its_way(run, folder, tmp_path, monkeypatch):
    """Nothing measured yet, or a line half written."""
    monkeypatch.setenv("COLUMNS", "200")
    shutil.copytree(folder / "gpt", tmp_path / "gpt")
    for name in ("metrics.jsonl", "clock.jsonl"):
        (tmp_path / "gpt" / name).write_bytes(b'{"step": 1, "tok')
    assert "0 of 3" in run("runs", str(tmp_path))


def test_one_that_is_damaged_does_not_hide_the_others(run, refuse, folder, tmp_path):
    shutil.copytree(folder, tmp_path / "all")
    (tmp_path / "all" / "gpt" / "run.json").write_text("{}")
    damaged, whole = json.loads(run("runs", str(tmp_path / "all"), "--json"))
    assert "damaged or edited" in damaged["error"]
    assert "error" not in whole
    assert "damaged or edited" in run("runs", str(tmp_path / "all")).splitlines()[-1]
    assert "damaged or edited" in refuse("runs", str(tmp_path / "all" / "gpt"))


def test_one_line(refuse, tmp_path):
    assert "nowhere: there is no such folder; give the one that holds your runs" in refuse(
        "runs", str(tmp_path / "nowhere")
    )
    (tmp_path / "my runs").mkdir()
    said = refuse("runs", str(tmp_path / "my runs"))
    assert f"no run in it; sublayer train gpt2 --out '{tmp_path}/my runs/NAME' makes one" in said
    assert "--colour" in refuse("runs", "--colour")
