"""Timing, on a clock that the tests turn themselves."""

from itertools import repeat
from statistics import median

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sublayer.measurement import clock
from sublayer.measurement.clock import Lap, Runner, Watch, timed
from sublayer.measurement.counters import ProcessCounters
from sublayer.measurement.pace import Pace, Shares

SECOND, NOTHING = repeat(1.0), repeat(0.0)


class Device:
    """A clock that work moves on, and counters of what work waited for.

    times: seconds of each run. waits: seconds of each run without a processor. slowdown: of everything, at a moment.
    """

    def __init__(self, times=SECOND, waits=NOTHING, slowdown=lambda now: 1.0):
        self.now, self.cpu, self.waited = 0.0, 0.0, 0.0
        self.times, self.waits, self.slowdown = iter(times), iter(waits), slowdown
        self.runs = self.references = 0
        self.watch = Watch(lambda: self.now, lambda: ProcessCounters(self.cpu, self.waited, 0))

    def work(self):
        self.runs += 1
        took, waited = next(self.times) * self.slowdown(self.now), next(self.waits)
        self.now, self.cpu, self.waited = self.now + took + waited, self.cpu + took, self.waited + waited

    def component(self):
        self.references += 1
        took = 0.1 * self.slowdown(self.now)
        self.now, self.cpu = self.now + took, self.cpu + took

    @property
    def reference(self):
        return dict.fromkeys(("products", "stream", "overhead"), self.component)

    def time(self, tolerance=0.01, seconds=1e9):
        (timing,) = timed([Runner(self.work)], self.reference, tolerance=tolerance, seconds=seconds, watch=self.watch)
        return timing

    def seconds(self, **how):
        timing = self.time(**how)
        return median(timing.at_pace(Pace(0.1, 0.1, 0.1)))


def test_equal_runs_end_after_the_least_number_of_repeats():
    device = Device()
    timing = device.time()
    assert timing.at_pace(timing.pace) == pytest.approx([1.0] * clock.LEAST)
    assert list(timing.pace) == pytest.approx([0.1] * 3)
    assert device.runs == clock.LEAST + clock.WARM_UP


def test_spread_asks_for_more_repeats_until_the_time_is_over():
    timing = Device(1.0 + 0.5 * (n % 2) for n in range(10**6)).time(seconds=100)
    assert len(timing.repeats) > 5 * clock.LEAST
    low, high = clock.interval(timing.at_pace(timing.pace))
    assert 1.0 <= low <= high <= 1.5 + 1e-9


def test_one_bad_second_does_not_move_the_median():
    assert Device([1.0] * 5 + [60.0] + [1.0] * 10**4).seconds(seconds=1000) == pytest.approx(1.0)


def test_a_run_that_waited_for_a_processor_is_discarded_and_taken_again():
    device = Device(waits=[0.0] * 4 + [3.0] + [0.0] * 100)
    timing = device.time()
    assert len(timing.repeats) == len(timing.clean) == clock.LEAST
    (discarded,) = timing.discarded
    assert discarded.lap.wall == pytest.approx(4.0)
    assert discarded.lap.seconds == pytest.approx(1.0)
    assert timing.at_pace(timing.pace) == pytest.approx([1.0] * clock.LEAST)


def test_where_every_run_waits_all_are_used_without_the_time_they_waited():
    timing = Device(waits=repeat(2.0)).time(seconds=50)
    assert timing.clean == []
    assert timing.rounds == [None] * len(timing.repeats)
    assert timing.at_pace(timing.pace) == pytest.approx([1.0] * len(timing.repeats))


def test_each_run_is_corrected_by_the_reference_around_it():
    halfway = Device(slowdown=lambda now: 1.0 if now < 12 else 2.0)
    assert halfway.seconds() == pytest.approx(1.0, rel=0.01)
    assert Device(slowdown=lambda now: 3.0).seconds() == pytest.approx(1.0)


def test_only_what_slows_its_kind_of_work_slows_a_model():
    quiet, now = Pace(0.1, 0.1, 0.1), Pace(0.2, 0.8, 0.1)
    assert now.slowdown(quiet, Shares(1.0, 0.0, 0.0)) == pytest.approx(2.0)
    assert now.slowdown(quiet, Shares(0.0, 0.0, 1.0)) == pytest.approx(1.0)
    assert now.slowdown(quiet, Shares(0.5, 0.5, 0.0)) == pytest.approx(4.0)
    assert list(Shares.of(seconds=1.0, products=0.2, stream=0.3)) == pytest.approx([0.2, 0.3, 0.5])
    assert list(Shares.of(seconds=1.0, products=3.0, stream=1.0)) == pytest.approx([0.75, 0.25, 0.0])


def test_what_is_prepared_is_not_timed():
    device = Device()

    def prepare():
        device.now += 100.0

    (timing,) = timed([Runner(device.work, prepare)], device.reference, tolerance=0.01, watch=device.watch)
    assert timing.at_pace(timing.pace) == pytest.approx([1.0] * clock.LEAST)


def test_beside_a_long_run_the_reference_runs_more_often():
    counts = []
    for seconds in (1.0, 100.0):
        device = Device(repeat(seconds))
        device.time()
        counts.append(device.references)
    assert counts[1] > 10 * counts[0]


def test_models_of_a_race_run_once_a_round_in_changing_order():
    device, ran = Device(), []
    runners = [Runner(lambda name=name: (ran.append(name), device.work())) for name in "abc"]
    timings = timed(runners, device.reference, watch=device.watch)
    assert [len(timing.repeats) for timing in timings] == [clock.LEAST] * 3
    turns = ran[3 * clock.WARM_UP :]
    assert turns[::2] == turns[1::2]  # each runs once before it is timed, so that the caches hold its own weights
    rounds = [tuple(turns[at : at + 6 : 2]) for at in range(0, len(turns), 6)]
    assert all(sorted(one) == ["a", "b", "c"] for one in rounds)
    assert len(set(rounds)) > 1


def test_without_the_system_s_count_cpu_time_shows_what_was_waited():
    assert Lap(1.0, ProcessCounters(0.4)).waited == pytest.approx(0.6)
    assert Lap(1.0, ProcessCounters(2.0)).clean  # two threads
    assert not Lap(1.0, ProcessCounters(1.0, waited=0.5)).clean


def test_counters_of_this_process_go_up():
    before = ProcessCounters.now()
    sum(range(10**5))
    used = ProcessCounters.now() - before
    assert used.cpu > 0
    assert used.waited is None or used.waited >= 0


@given(st.lists(st.floats(0.1, 10), min_size=5, max_size=60))
def test_the_interval_holds_the_median(values):
    low, high = clock.interval(values)
    assert min(values) <= low <= median(values) <= high <= max(values)
