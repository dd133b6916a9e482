"""`sublayer measure`: a table for people, JSON for programs, one line for what cannot be."""

import json

import pytest

SMALL = ("dim=64", "layout=(sf)x1", "s.heads=2", "vocab=256", "--seconds", "0.05")


@pytest.fixture(autouse=True)
def patient(monkeypatch):
    """No test depends on how quiet the machine is."""
    monkeypatch.setattr("sublayer.measurement.reading.Reading.disturbed", None)


def test_json(run):
    told = json.loads(run("measure", "gpt2", *SMALL, "--json"))
    assert told["setting"]["task"] == "segment"
    (row,) = told["models"]
    assert row["low"] <= row["latency"] <= row["high"]
    assert row["memory"] == sum(row["parts"][name] for name in ("weights", "state", "peak"))
    assert row["device"]["processor"]
    assert row["raw"] > 0
    assert row["conditions"]["repeats"] >= row["repeats"]
    assert row["ratio"] == {"value": 1.0, "low": 1.0, "high": 1.0}


def test_a_table(run):
    lines = run("measure", "gpt2", "llama", "--task", "token", "--length", "16", "--threads", "1", *SMALL).splitlines()
    assert "one token after 16" in lines[0]
    assert ", 1 thread, " in lines[0]
    rows = [line for line in lines if line.startswith(("gpt2  ", "llama  "))]
    assert [line.split()[0] for line in rows] == ["gpt2", "llama"]
    assert "ratio" in lines[1]
    assert "±" in rows[1]


def test_a_machine_too_busy_is_refused_or_shown_as_such(run, refuse, monkeypatch):
    monkeypatch.setattr("sublayer.measurement.reading.Reading.disturbed", "others work")
    said = refuse("measure", "gpt2", *SMALL, "--wait", "0")
    assert "too busy to measure: others work, still so after 0 s; stop other programs, wait longer" in said
    assert "do not trust its time, as others work" in " ".join(
        run("measure", "gpt2", *SMALL, "--wait", "0", "--anyway").split()
    )


def test_stored_readings_are_forgotten(run, tmp_path, monkeypatch):
    monkeypatch.setenv("SUBLAYER_CACHE", str(tmp_path))
    assert run("measure", "--forget") == "0 stored readings removed\n"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "no model is named"),
        (["gtp2"], "did you mean"),
        (["gpt2", "--length", "0"], "length"),
        (["gpt2", "--length", "100000"], "the model has 1024 positions"),
        (["llama", "dim=512", "--length", "1000000", "--batch", "60000"], "a pass needs"),
        (["gpt2", "--seconds", "-1"], "seconds=-1"),
        (["gpt2", "--wait", "-1"], "wait=-1: expected seconds"),
        (["gpt2", "--seconds", "inf"], "seconds=inf: repeats take time, and have to end"),
        (["bert-base", "--task", "token"], "use prefill"),
        (["gpt2", "--device", "nonsense"], "nonsense"),
    ],
)
def test_wrong_input_is_one_line(refuse, words, said):
    assert said in refuse("measure", *words)
