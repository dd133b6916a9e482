import math

import pytest

from sublayer.measurement.pace import BELIEF, Pace
from sublayer.measurement.reading import Memory, Reading


def reading(latency, pace=1.0):
    return Reading(latency, latency, latency, 5, pace, Memory(1, 1, 1, 1), {})


def test_a_slow_moment_is_taken_out_as_far_as_it_shows():
    pairs = [[reading(1.0), reading(2.0, pace=4.0)]] * 200
    pace = Pace.of(pairs)
    assert pace.share == pytest.approx(0.5, abs=0.01)
    assert pace.noise == pytest.approx(0.0, abs=0.01)
    usual = pace.usual([reading(1.0, pace=pace.reference)])
    assert pace.usual([reading(2.0, pace=4 * pace.reference)]) == pytest.approx(2 * usual / 2, rel=0.02)


def test_times_that_do_not_follow_the_reference_are_left_alone():
    pace = Pace.of([[reading(1.0), reading(1.0, pace=4.0)]] * 200)
    assert pace.share == pytest.approx(0.0, abs=0.01)


def test_without_pairs_there_is_only_belief():
    pace = Pace.of([[reading(3.0, pace=2.0)]])
    assert pace.share == BELIEF
    assert pace.usual([reading(3.0, pace=2.0)]) == pytest.approx(3.0)


def test_noise_is_the_deviation_of_two_readings_taken_together():
    pairs = [[reading(1.0), reading(math.exp(0.2 * sign))] for sign in (1, -1)] * 50
    assert Pace.of(pairs).noise == pytest.approx(0.2 / 0.6745 / 2, rel=0.01)
