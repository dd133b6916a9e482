"""Limits as they are typed."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sublayer.nas import units
from sublayer.nas.goals import read_goals, read_limits
from sublayer.nas.records import SearchGoal


@pytest.mark.parametrize(
    ("figure", "text", "amount"),
    [
        ("latency", "5ms", 0.005),
        ("latency", "0.2s", 0.2),
        ("latency", "350 us", 350e-6),
        ("memory", "64MB", 64e6),
        ("memory", "1.5GiB", 1.5 * 2**30),
        ("params", "10M", 10e6),
        ("params", "1,500,000", 1.5e6),
        ("flops", "2G", 2e9),
        ("params", "250", 250),
        ("latency", 0.5, 0.5),
    ],
)
def test_texts(figure, text, amount):
    assert units.read(figure, text) == pytest.approx(amount)


@pytest.mark.parametrize(
    ("figure", "text", "answer"),
    [
        ("latency", "5", r"latency_max=5: expected a time in s, ms or us, such as 5ms or 0\.2s"),
        ("latency", "5MB", "latency_max=5MB: expected a time"),
        ("latency", "0,2s", "latency_max=0,2s: expected a time"),
        ("params", "1,5M", "params_max=1,5M: expected a number"),
        ("memory", "64", "memory_max=64: expected bytes with their unit, such as 64MB"),
        ("params", "ten", "params_max=ten: expected a number, such as 250k or 10M"),
        ("params", "-3", "params_max=-3: expected a number"),
        ("latency", "0ms", "greater than 0"),
        ("memory", float("inf"), "greater than 0"),
    ],
)
def test_texts_that_are_none(figure, text, answer):
    with pytest.raises(ValueError, match=answer):
        read_limits({figure: text})


@given(st.sampled_from(["latency", "memory", "params"]), st.floats(1e-6, 1e12))
def test_what_is_written_reads_back(figure, amount):
    if figure == "memory" and amount < 1:
        return
    written = units.write(figure, amount)
    assert units.read(figure, written) == pytest.approx(amount, rel=6e-3)


def test_objectives():
    quality, speed = SearchGoal(name="decoder_params", direction="maximize"), SearchGoal(name="latency", unit="s")
    assert read_goals("decoder_params,latency") == (quality, speed)
    assert read_goals(["params:max", "flops:min"])[0].direction == "maximize"
    for wrong in ("latency", "latency,latency", "a,b,c,d"):
        with pytest.raises(ValueError, match="expected two or three different figures"):
            read_goals(wrong)
    with pytest.raises(ValueError, match="objective 'latency:up'"):
        read_goals("latency:up,memory")
