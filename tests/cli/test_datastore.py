"""`sublayer datastore`, and `eval` and `generate` with what it builds."""

import json

import pytest

from tests.training import tiny


@pytest.fixture(scope="module")
def run_folder(book):
    return str(tiny.train(book, book.parent / "run", train__steps=1).path)


@pytest.fixture(scope="module")
def store(run_folder, book):
    import sublayer

    return str(sublayer.datastore(run_folder, out=book.parent / "store", index="exact").path)


def test_build_show_eval_and_generate(run, run_folder, tmp_path):
    out = str(tmp_path / "store")
    page = run("datastore", "build", run_folder, "--out", out, "--index", "exact", "--limit", "400")
    assert "400 tokens" in page
    assert f"sublayer eval {run_folder} --datastore {out} --tune" in page
    assert json.loads(run("datastore", "show", out, "--json"))["entries"] == 400
    looked = ["--datastore", out, "--neighbours", "8", "--lambda", "0.5"]
    told = json.loads(run("eval", run_folder, *looked, "--temperature", "2", "--json"))
    assert told["datastore"]["temperature"] == 2
    assert told["loss"] != told["datastore"]["model"]["loss"]
    page = run("eval", run_folder, "--datastore", out, "--tune", "--neighbours", "8")
    assert "tuned on valid" in page
    assert "loss, model alone" in page
    page = run("generate", run_folder, "--prompt", "line", "--tokens", "4", *looked, "--explain")
    assert "context that it came after" in page
    told = json.loads(run("generate", run_folder, "--prompt", "line", "--tokens", "4", *looked, "--explain", "--json"))
    assert len(told[0]["tokens"]) >= 1


@pytest.mark.parametrize(
    ("words", "answer"),
    [
        (["--neighbours", "3"], "neighbours: is about datastores, and none is given; add --datastore STORE"),
        (["--datastore", "none"], "none: there is no such folder, expected a datastore"),
        (["--datastore", "STORE", "--lambda", "-1"], "lambda=-1.0: expected a share from 0"),
        (["--datastore", "STORE", "--temperature", "0"], "temperature=0.0: distances are divided by it"),
        (["--datastore", "STORE", "--neighbours", "9999999"], "neighbours=9,999,999: expected 1 to "),
        (["--datastore", "STORE", "--positions"], "leave out one of the two"),
        (["--datastore", "STORE", "--tune", "--split", "valid"], "tune: needs the valid split"),
        (["--datastore", "STORE", "--tune", "--lambda", "0.2"], "tune: finds lambda"),
    ],
    ids=str,
)
def test_one_line(refuse, run_folder, store, words, answer):
    assert answer in refuse("eval", run_folder, *(store if word == "STORE" else word for word in words))


def test_one_line_of_building(refuse, run_folder, store, tmp_path):
    assert "not a datastore" in refuse("datastore", "show", run_folder)
    assert "index kind 'ivff'" in refuse("datastore", "build", run_folder, "--out", str(tmp_path), "--index", "ivff")
    assert "add --datastore STORE" in refuse("generate", run_folder, "--explain")
    assert "task:copy: " in refuse(
        "datastore", "build", run_folder, "--data", "task:copy", "--out", str(tmp_path / "x")
    )
