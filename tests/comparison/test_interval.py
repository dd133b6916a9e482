"""Intervals over seeds: Student's, and paired where seeds are shared."""

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sublayer.comparison.interval import Interval, student, verdict, within

numbers = st.floats(-100, 100)


@pytest.mark.parametrize(
    ("freedom", "t"),
    [(1, 12.7062), (2, 4.3027), (3, 3.1824), (4, 2.7764), (7, 2.3646), (10, 2.2281), (30, 2.0423), (1000, 1.9623)],
)
def test_as_the_tables_have_it(freedom, t):
    assert student(freedom) == pytest.approx(t, abs=1e-4)
    assert within(t, freedom) == pytest.approx(0.95, abs=1e-5)


@given(st.lists(numbers, min_size=2, max_size=8), numbers)
def test_an_interval_moves_with_its_values_and_holds_their_mean(values, shift):
    found, moved = Interval.of(values), Interval.of([value + shift for value in values])
    assert found.low - 1e-9 <= found.mean <= found.high + 1e-9
    assert moved.mean == pytest.approx(found.mean + shift, abs=1e-9)
    assert moved.half == pytest.approx(found.half, abs=1e-6)


def test_it_holds_the_truth_as_often_as_it_says():
    chance = random.Random(0)
    held = 0
    for _ in range(2000):
        found = Interval.of([chance.gauss(1, 2) for _ in range(3)])
        held += found.low < 1 < found.high
    assert 0.93 < held / 2000 < 0.97


def test_few_values():
    assert Interval.of([]) is None
    assert Interval.of([2.0]) == Interval(mean=2.0)
    assert Interval.of([2.0, 2.0, 2.0]) == Interval(mean=2.0, low=2.0, high=2.0)
    assert Interval(mean=0.0, high=1.0).map(math.exp) == Interval(mean=1.0, high=math.e)


def test_verdicts_in_plain_words():
    assert verdict(None) == "nothing to compare"
    assert verdict(Interval.of([-1.0])) == "one seed, no verdict"
    assert verdict(Interval.of([-1.0, -1.1, -0.9])) == "better"
    assert verdict(Interval.of([1.0, 1.1, 0.9])) == "worse"
    assert verdict(Interval.of([1.0, -1.1, 0.9])) == "no difference seen"
