"""The time left, by a clock that the test moves."""

import pytest

from sublayer.progress.estimate import Estimate, duration


def test_nothing_is_known_before_the_first_advance():
    assert Estimate(0, 0).left(5) is None


def test_the_first_advance_counts_until_there_is_a_second_and_then_no_more():
    estimate = Estimate(0, 0)
    estimate.advance(1, 10, 30)
    assert estimate.left(30) == 270
    estimate.advance(2, 10, 32)  # the first one included a slow start
    assert estimate.left(32) == 16
    assert estimate.left(40) == 8


def test_what_was_done_before_does_not_count():
    estimate = Estimate(50, 0)
    estimate.advance(60, 100, 10)
    assert estimate.left(10) == 40


def test_time_that_has_run_out_is_not_known():
    estimate = Estimate(0, 0)
    estimate.advance(1, 2, 10)
    assert estimate.left(21) is None


def test_without_a_total_nothing_is_known():
    estimate = Estimate(0, 0)
    estimate.advance(3, None, 10)
    assert estimate.left(10) is None


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0.4, "0 s"),
        (59.4, "59 s"),
        (59.6, "1 min"),
        (130, "2 min 10 s"),
        (3599.7, "1 h"),
        (12_000, "3 h 20 min"),
        (24 * 3600, "1 day"),
        (187_000, "2 days 4 h"),
    ],
)
def test_durations(seconds, words):
    assert duration(seconds) == words
