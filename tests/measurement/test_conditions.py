"""What disturbs, what is corrected, and how wide an interval has to be."""

import json
import math
from random import Random

import pytest

from sublayer.measurement import Reading, counters
from sublayer.measurement.clock import Lap, Repeat, Timing
from sublayer.measurement.conditions import Conditions
from sublayer.measurement.counters import MachineCounters, Neighbours, ProcessCounters
from sublayer.measurement.pace import Pace, Shares
from sublayer.measurement.quiet import Machine, require_quiet, undisturbed
from sublayer.measurement.quiet_pace import PaceFile, QuietPace, Sample
from tests.measurement.plain import PACE, conditions, reading

QUIET = QuietPace(PACE, 0.02)


@pytest.mark.parametrize(
    ("state", "said"),
    [
        ({}, None),
        ({"others": 1.0}, None),  # the other core is enough for one thread
        ({"others": 0.2, "threads": 2}, None),
        ({"others": None, "stolen": None}, None),
        ({"others": 0.96, "threads": 2}, "other processes take 96 % of a core, and 2 of 2 are needed"),
        ({"others": 1.4}, "other processes take 1.4 cores, and 1 of 2 are needed"),
        ({"stolen": 0.5, "threads": 2}, "other machines on this host take 50 % of a core, and 2 of 2 are needed"),
        ({"clean": 2, "waited": 0.48}, "runs wait 48 % of their time for a processor"),
        ({"slowdown": 1 / 0.6}, "the device runs at 0.60 of its quiet pace"),
        ({"uncalibrated": "others work"}, "the quiet pace of this device is not known yet, as others work"),
    ],
)
def test_what_disturbs_is_named(state, said):
    assert conditions(**state).disturbed == said


def test_a_pace_is_quiet_only_if_the_whole_machine_is():
    assert conditions(others=0.2).busy is None
    assert conditions(others=0.9).disturbed is None
    assert conditions(others=0.9).busy == "other processes take 90 % of a core"
    assert conditions(others=5.0, cores=64).busy is None


def test_a_reading_is_given_at_the_quiet_pace_with_the_raw_one_beside():
    slow = reading(1.05e-3, pace=Pace(1.05e-3, 1e-3, 1e-3)).at(QUIET)
    assert slow.latency == pytest.approx(1e-3)
    assert slow.raw == 1.05e-3
    assert slow.conditions.slowdown == pytest.approx(1.05)
    assert slow.disturbed is None
    assert reading(2e-3, pace=Pace(2e-3, 1e-3, 1e-3)).at(QUIET).disturbed.startswith("the device runs at 0.50")


def test_bursts_shorter_than_a_run_show_in_how_runs_differ():
    assert reading(uneven=1.15).disturbed is None
    assert reading(uneven=1.3).disturbed == "a quarter of the runs takes 30 % longer than another quarter"
    quick, slow = (Repeat(Lap(wall, ProcessCounters(wall)), PACE) for wall in (1.0, 1.5))
    timing = Timing(Shares(1.0, 0.0, 0.0), [quick] * 6 + [slow] * 6)
    assert Conditions.of(timing, 1, None).uneven == pytest.approx(1.5)


def test_a_reading_of_an_earlier_version_stays_as_it_is():
    old = {"latency": 1.0, "low": 0.9, "high": 1.1, "repeats": 5, "pace": 0.004, "device": {}, "memory": 3}
    read = Reading.read({**old, "parts": {"weights": 1, "state": 1, "peak": 1, "kept": 1}, "high_water": None})
    assert read.at(QUIET) == read
    assert (read.conditions, read.disturbed) == (None, None)


def test_a_pace_of_another_reference_load_corrects_nothing():
    stored = reading().dump()
    stored["pace"] = {"products": 0.001, "stream": 0.001, "calls": 0.001}
    assert Reading.read(stored).pace is None
    assert Reading.read(stored).at(QUIET).latency == stored["latency"]


def test_a_reading_survives_a_file():
    one = reading(others=0.5, slowdown=1.2)
    assert Reading.read(json.loads(json.dumps(one.dump()))) == one


def test_intervals_hold_what_other_processes_find():
    """Processes differ by 3 %, corrections are off by a fifth: of a hundred readings, nine in ten hold the truth."""
    dice, truth, held = Random(0), 1e-3, 0
    for _ in range(100):
        slowdown = math.exp(abs(dice.gauss(0, 0.2)))
        off = dice.gauss(0, 0.03) + dice.gauss(0, 0.2) * math.log(slowdown)
        seen = truth * slowdown * math.exp(off)
        one = reading(seen, low=0.99 * seen, high=1.01 * seen, pace=Pace(1e-3 * slowdown, 1e-3, 1e-3))
        settled = one.at(QuietPace(PACE, 0.03))
        held += settled.low <= truth <= settled.high
    assert held >= 90


def test_a_median_that_is_left_open_is_useless():
    said = reading(1e-3, low=0.5e-3, high=2e-3).disturbed
    assert said == "9 repeats of 1 ms leave the median open by ±75 %"


def test_the_quiet_pace_is_the_usual_one_of_the_fastest(tmp_path):
    file = PaceFile("d", tmp_path)
    assert file.quiet() is None
    for minute, slow in enumerate((1.6, 1.0, 1.02, 1.7, 1.04)):
        file.add(Sample(Pace(slow, slow, slow), at=60.0 * minute))
    assert list(file.quiet().pace) == pytest.approx([1.02] * 3, rel=0.021)
    assert 0.005 < file.quiet().spread < 0.04
    assert Sample(Pace(1.0, 1.0, 0.8)).improves(file.quiet())
    assert not Sample(Pace(0.99, 1.0, 1.3)).improves(file.quiet())


def test_a_pace_seen_in_one_minute_only_is_trusted_less(tmp_path):
    file = PaceFile("d", tmp_path)
    first = [file.add(Sample(Pace(1.0, 1.0, 1.0), at=float(second))).spread for second in range(0, 60, 10)]
    later = [file.add(Sample(Pace(1.0, 1.0, 1.0), at=60.0 * minute)).spread for minute in range(1, 8)]
    assert first[-1] > 0.9 * first[0], "more samples of the same minute say little about the next"
    assert first + later == sorted(first + later, reverse=True)
    assert first[-1] > 2 * later[-1]


def test_a_device_is_known_when_several_of_its_samples_agree(tmp_path):
    file = PaceFile("d", tmp_path)
    for seen, known in ((1.0, False), (1.5, False), (1.04, False), (1.5, False), (1.02, True)):
        file.add(Sample(Pace(seen, seen, seen)))
        assert file.familiar(5) == known
    assert not PaceFile("other", tmp_path).familiar(1)


def test_a_disturbed_pace_is_replaced_by_the_first_quiet_one(tmp_path):
    file = PaceFile("d", tmp_path)
    assert file.add(Sample(Pace(1.0, 1.0, 1.0), "others work")).disturbed == "others work"
    assert Sample(Pace(2.0, 2.0, 2.0)).improves(file.quiet())
    quiet = file.add(Sample(Pace(2.0, 2.0, 2.0)))
    assert (quiet.pace, quiet.disturbed) == (Pace(2.0, 2.0, 2.0), None)
    assert file.add(Sample(Pace(1.0, 1.0, 1.0), "others work")) == quiet


def test_a_pace_file_that_is_damaged_or_cannot_be_written_is_no_obstacle(tmp_path):
    file = PaceFile("d", tmp_path)
    file.path.parent.mkdir()
    for damage in ("", "[]", '{"samples": [1]}', '{"pace": {}, "samples": []}'):
        file.path.write_text(damage)
        assert file.quiet() is None
        assert file.add(Sample(PACE)).pace == PACE
    (tmp_path / "file").write_text("")
    assert PaceFile("d", tmp_path / "file").add(Sample(PACE)).pace == PACE


class Clock:
    """A machine whose other processes stop at a moment; sleeping moves the clock."""

    def __init__(self, until):
        self.time, self.busy, self.until = 0.0, 0.0, until
        self.machine = Machine(lambda: self.time, self.sleep, self.counters)

    def sleep(self, seconds):
        self.busy += 2 * seconds if self.time < self.until else 0.0
        self.time += seconds

    def counters(self):
        return MachineCounters(self.busy, 0.0, 2 * self.time - self.busy, 0.0)

    def take(self):
        self.time += 1.0
        return reading(others=2.0 if self.time <= self.until else 0.0)


@pytest.fixture(autouse=True)
def two_cores(monkeypatch):
    monkeypatch.setattr(counters.os, "cpu_count", lambda: 2)


def test_a_disturbed_reading_is_repeated_until_the_machine_is_quiet():
    clock, said = Clock(until=10.0), []
    assert undisturbed(clock.take, 30.0, 1, said.append, clock.machine).disturbed is None
    assert 10 < clock.time < 14
    assert "other processes take 2.0 cores" in said[0]


def test_after_the_wait_a_disturbed_reading_is_refused():
    clock = Clock(until=math.inf)
    found = undisturbed(clock.take, 30.0, 1, machine=clock.machine)
    assert clock.time < 35
    with pytest.raises(ValueError, match=r"too busy to measure: other processes take .*after 30 s; stop.*--anyway"):
        require_quiet(found, 30.0)
    assert require_quiet(reading(), 30.0) == reading()


def test_without_patience_it_is_tried_once():
    clock = Clock(until=math.inf)
    assert undisturbed(clock.take, 0.0, 1, machine=clock.machine).disturbed
    assert clock.time == 1.0


def test_where_the_system_does_not_count_nobody_disturbs(monkeypatch, tmp_path):
    monkeypatch.setattr(counters, "STAT", tmp_path / "missing")
    monkeypatch.setattr(counters, "TASKS", tmp_path / "missing")
    assert MachineCounters.now() is None
    assert counters.ProcessCounters.now().waited is None
    assert Neighbours.between(None, None) is None
    assert Machine(sleep=lambda seconds: None).disturbance(2) is None


def test_what_others_take_is_counted_without_this_process():
    before = MachineCounters(busy=10.0, stolen=1.0, idle=9.0, own=5.0)
    after = MachineCounters(busy=13.0, stolen=1.2, idle=9.8, own=6.0)
    others = Neighbours.between(before, after)
    assert (others.processes, others.machines) == (pytest.approx(1.0), pytest.approx(0.1))
