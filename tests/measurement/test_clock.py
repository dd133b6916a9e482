"""Timing, on a clock that the tests turn themselves."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sublayer.measurement import clock


class Turned:
    """A clock that work moves on."""

    def __init__(self, times):
        self.now, self.times, self.runs = 0.0, iter(times), 0

    def __call__(self):
        return self.now

    def work(self):
        self.runs += 1
        self.now += next(self.times)

    def reference(self):
        self.now += 0.25


def steady(seconds):
    while True:
        yield seconds


def test_equal_runs_end_after_the_least_number_of_repeats():
    turned = Turned(steady(1.0))
    timing = clock.timed(turned.work, turned.reference, tolerance=0.01, seconds=1e9, now=turned)
    assert timing == clock.Timing(1.0, 1.0, 1.0, clock.LEAST, 0.25)
    assert turned.runs == clock.LEAST + clock.WARM_UP


def test_spread_asks_for_more_repeats_until_the_time_is_over():
    turned = Turned(1.0 + 0.5 * (n % 2) for n in range(10**6))
    timing = clock.timed(turned.work, turned.reference, tolerance=0.01, seconds=100, now=turned)
    assert timing.repeats > 5 * clock.LEAST
    assert 1.0 <= timing.low <= timing.median <= timing.high <= 1.5


def test_one_bad_second_does_not_move_the_median():
    turned = Turned([1.0] * 5 + [60.0] + [1.0] * 10**4)
    timing = clock.timed(turned.work, turned.reference, tolerance=0.01, seconds=1000, now=turned)
    assert timing.median == 1.0


def test_what_is_prepared_is_not_timed():
    turned = Turned(steady(1.0))

    def prepare():
        turned.now += 100.0

    timing = clock.timed(turned.work, turned.reference, prepare, tolerance=0.01, seconds=1e9, now=turned)
    assert timing.median == 1.0


def test_beside_a_long_run_the_reference_runs_more_often():
    paces = Turned(steady(0.0))
    short, long = Turned(steady(1.0)), Turned(steady(100.0))
    del paces
    counts = []
    for turned in (short, long):
        ran = [0]

        def reference(turned=turned, ran=ran):
            ran[0] += 1
            turned.reference()

        clock.timed(turned.work, reference, tolerance=0.01, seconds=1e9, now=turned)
        counts.append(ran[0])
    assert counts[1] > 10 * counts[0]


@given(st.lists(st.floats(0.1, 10), min_size=5, max_size=60))
def test_the_interval_holds_the_median(values):
    low, high = clock.interval(values)
    assert min(values) <= low <= clock.median(values) <= high <= max(values)


@pytest.mark.parametrize(("values", "middle"), [([3, 1, 2], 2), ([4, 1, 3, 2], 2.5)])
def test_median(values, middle):
    assert clock.median(values) == middle
