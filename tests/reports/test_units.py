"""Quantities as people read them."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sublayer.comparison.interval import Interval
from sublayer.reports.units import fact, percent, scale, score, signed, spreads


@pytest.mark.parametrize(
    ("name", "values", "label", "first"),
    [
        ("latency", [0.0123, 0.5], "latency (ms)", "12.3"),
        ("latency", [12.0, 90.0], "latency (s)", "12.00"),
        ("memory", [5_000_000, 64_000_000], "memory (MB)", "5.00"),
        ("decoder_params", [5_187_008], "decoder parameters (M)", "5.187"),
        ("params", [812, 990], "parameters", "812"),
        ("valid_loss", [1.25], "validation loss (nats per token)", "1.250"),
        ("synflow", [12.5], "synflow", "12.50"),
        ("latency", [None, math.nan], "latency (ms)", "—"),
    ],
)
def test_units(name, values, label, first):
    known = scale(name, values)
    assert (known.label, known.number(values[0])) == (label, first)


@given(st.sampled_from(["latency", "memory", "params", "other"]), st.floats(1e-9, 1e15))
def test_the_largest_keeps_its_digits(name, value):
    known = scale(name, [value])
    shown = known.shown(value)
    assert shown == pytest.approx(value * known.factor, rel=1e-5)
    if name != "params" and value * known.factor > 1e-3:
        assert float(known.number(value).replace(",", "")) == pytest.approx(shown, rel=5e-3)


def test_errors_of_predictions():
    assert percent(1.1, 1.0) == pytest.approx(10)
    assert [percent(*pair) for pair in ((None, 1.0), (1.0, None), (1.0, 0.0))] == [None] * 3
    assert signed(-3.14) == "−3.1\u00a0%"


def test_means_have_as_many_decimals_as_their_intervals_allow():
    middle = [Interval(mean=2.17812, low=2.16612, high=2.19012), Interval(mean=1.5), None]
    assert spreads(middle) == ["2.178 ±\u00a00.012", "1.500", "—"]
    assert spreads([Interval(mean=-0.722)], sign=True) == ["−0.722"]
    assert spreads([Interval(mean=100.0, low=80.0, high=140.0)]) == ["100.0 [80.0, 140.0]"]
    assert spreads([Interval(mean=1.0, low=1.0, high=1.0)]) == ["1.000 ±\u00a00.000"]


def test_no_number_of_a_record_is_longer_than_it_says_anything():
    assert fact(0.09583455725777723) == "0.09583"
    assert (fact(12), fact(16_374_562_816)) == ("12", "16,374,562,816")
    assert (score(-0.72196), score(None)) == ("−0.722", "—")
