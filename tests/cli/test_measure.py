"""`sublayer measure`: a table for people, JSON for programs, one line for what cannot be."""

import json
from dataclasses import replace

import pytest

from sublayer.measurement import Race
from tests.measurement.plain import reading

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


class Quick:
    """In place of the process that measures: models take ten milliseconds, and twice as long on a busy machine."""

    slowdown, others = 1.0, 0.0

    def __init__(self, setting, plugins=()):
        self.setting = setting

    def read(self, config, **how):
        state = {"others": self.others, "cores": 64, "slowdown": self.slowdown}
        return replace(reading(1e-2, **state), raw=1e-2 * self.slowdown, device={"processor": "counted"})

    def settle(self, read):
        return read

    def race(self, configs, **how):
        return Race([self.read(config) for config in configs], [[1.0, 2.0, 3.0, 4.0, 5.0], [2.0, 4.0, 6.0, 8.0, 9.0]])

    def high_water(self, config):
        return 5

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass


@pytest.fixture
def quick(monkeypatch):
    monkeypatch.undo()
    monkeypatch.setattr("sublayer.measurement.whole_models.Worker", Quick)
    return lambda **state: [monkeypatch.setattr(Quick, name, value) for name, value in state.items()]


def test_a_table(run, quick):
    lines = run("measure", "gpt2", "llama", "--task", "token", "--length", "16", "--threads", "1", *SMALL).splitlines()
    assert "one token after 16" in lines[0]
    assert ", 1 thread, " in lines[0]
    rows = [line.split() for line in lines if line.startswith(("gpt2 ", "llama "))]
    assert [row[0] for row in rows] == ["gpt2", "llama"]
    assert "ratio" in lines[2]
    assert "±" in " ".join(rows[1])


def test_a_correction_is_shown_where_it_is_more_than_a_little(run, quick):
    assert "the clock showed" not in run("measure", "gpt2", *SMALL)
    quick(slowdown=1.07)
    assert "the clock showed 10.7 ms, while the machine ran at 0.93 of its quiet pace" in run("measure", "gpt2", *SMALL)


def test_a_machine_too_busy_is_refused_or_shown_as_such(run, refuse, quick):
    quick(others=64.0)
    said = refuse("measure", "gpt2", *SMALL, "--wait", "0")
    assert "too busy to measure: other processes take 64.0 cores, and 1 of 64 are needed, still so after 0 s" in said
    words = run("measure", "gpt2", *SMALL, "--wait", "0", "--anyway").split()
    assert "do not trust its time, as other processes take 64.0 cores" in " ".join(words)
    row = json.loads(run("measure", "gpt2", *SMALL, "--wait", "0", "--anyway", "--json"))["models"][0]
    assert (
        row["disturbed"] == row["conditions"]["disturbed"] == "other processes take 64.0 cores, and 1 of 64 are needed"
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
