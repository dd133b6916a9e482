"""`sublayer measure`: a table for people, JSON for programs, one line for what cannot be."""

import json

import pytest

SMALL = ("dim=64", "layout=(sf)x1", "s.heads=2", "vocab=256", "--seconds", "0.05")


@pytest.fixture(autouse=True)
def patient(monkeypatch):
    """No test depends on how quiet the machine is."""
    monkeypatch.setattr("sublayer.measurement.reading.NOISY", float("inf"))


def test_json(run):
    told = json.loads(run("measure", "gpt2", *SMALL, "--json"))
    assert told["setting"]["task"] == "segment"
    (row,) = told["models"]
    assert row["low"] <= row["latency"] <= row["high"]
    assert row["memory"] == sum(row["parts"][name] for name in ("weights", "state", "peak"))
    assert row["device"]["processor"]


def test_a_table(run):
    lines = run("measure", "gpt2", "llama", "--task", "token", "--length", "16", "--threads", "1", *SMALL).splitlines()
    assert "one token after 16" in lines[0]
    assert ", 1 thread, " in lines[0]
    assert [line.split()[0] for line in lines if line.startswith(("gpt2", "llama"))] == ["gpt2", "llama"]


def test_a_device_too_noisy_is_refused(refuse, monkeypatch):
    monkeypatch.setattr("sublayer.measurement.reading.NOISY", -1.0)
    assert "too noisy to measure" in refuse("measure", "gpt2", *SMALL)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "no model is named"),
        (["gtp2"], "did you mean"),
        (["gpt2", "--length", "0"], "length"),
        (["gpt2", "--length", "100000"], "the model has 1024 positions"),
        (["llama", "dim=512", "--length", "1000000", "--batch", "60000"], "a pass needs"),
        (["gpt2", "--seconds", "-1"], "seconds=-1"),
        (["gpt2", "--seconds", "inf"], "seconds=inf: repeats take time, and have to end"),
        (["bert-base", "--task", "token"], "use prefill"),
        (["gpt2", "--device", "nonsense"], "nonsense"),
    ],
)
def test_wrong_input_is_one_line(refuse, words, said):
    assert said in refuse("measure", *words)
