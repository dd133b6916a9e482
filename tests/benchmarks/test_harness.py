"""The harness's statistics and bookkeeping, on made-up times: no test here depends on how fast anything is."""

import json
from itertools import count

import harness
import neighbours
import numpy as np
import pytest
from harness import Race, Ratio
from hypothesis import given
from hypothesis import strategies as st
from neighbours import Reading

TIMES = st.lists(st.floats(0.01, 100), min_size=5, max_size=12)
PAIRS = st.lists(st.tuples(st.floats(0.01, 100), st.floats(0.01, 100)), min_size=5, max_size=12)


def race_of(pairs) -> Race:
    ours, peer = zip(*pairs, strict=True)
    return Race({"ours": ours, "peer": peer})


# Ratios


@given(PAIRS)
def test_the_ratio_is_that_of_medians_and_lies_in_its_interval(pairs):
    race = race_of(pairs)
    ratio = race.speedup("ours", "peer")
    low, high = ratio.interval
    assert ratio.value == pytest.approx(np.median(race.seconds["peer"]) / np.median(race.seconds["ours"]))
    assert low <= ratio.value <= high
    assert ratio.spread >= 0


@given(TIMES, st.floats(0.1, 10))
def test_what_slows_a_whole_round_cancels(times, factor):
    """A peer always `factor` times slower is exactly that, however much the rounds differ."""
    ratio = race_of([(time, time * factor) for time in times]).speedup("ours", "peer")
    assert ratio.interval == pytest.approx((factor, factor))


@given(PAIRS)
def test_swapping_sides_turns_the_verdict_around(pairs):
    race = race_of(pairs)
    there, back = race.speedup("ours", "peer"), race.speedup("peer", "ours")
    assert there.value * back.value == pytest.approx(1)
    opposite = {"faster": "slower", "slower": "faster", "no verdict": "no verdict"}
    assert back.verdict() == opposite[there.verdict()]


@given(PAIRS, TIMES)
def test_against_several_peers_only_the_fastest_counts(pairs, more):
    rounds = min(len(pairs), len(more))
    race = Race({**race_of(pairs[:rounds]).seconds, "other": more[:rounds]})
    each = [race.speedup("ours", peer).value for peer in ("peer", "other")]
    assert race.speedup("ours", "peer", "other").value == pytest.approx(min(each))
    assert race.median(race.fastest("peer", "other")) == min(race.median("peer"), race.median("other"))


def test_no_verdict_where_the_spread_exceeds_the_margin():
    noise = [1.0, 1.3, 0.8, 1.1, 0.9, 1.2, 0.7]
    assert Race({"ours": noise, "peer": [1.01 * t for t in reversed(noise)]}).speedup("ours", "peer").verdict() == (
        "no verdict"
    )


def test_a_margin_beyond_the_spread_is_a_verdict():
    noise = [1.0, 1.01, 0.99, 1.02, 0.98]
    race = Race({"ours": noise, "peer": [2 * t for t in reversed(noise)]})
    assert race.speedup("ours", "peer").verdict() == "faster"
    assert race.speedup("ours", "peer").verdict(line=3) == "slower"
    assert race.speedup("peer", "ours").verdict() == "slower"


def test_equal_times_are_no_verdict():
    assert Race({"ours": [1.0] * 5, "peer": [1.0] * 5}).speedup("ours", "peer").verdict() == "no verdict"


@given(st.lists(st.floats(0.1, 10), min_size=1, max_size=5))
def test_geometric_mean(values):
    ratios = [Ratio(value, np.full(harness.DRAWS, value)) for value in values]
    mean = harness.geometric_mean(ratios)
    assert mean.value == pytest.approx(np.prod(values) ** (1 / len(values)))
    assert mean.interval == pytest.approx((mean.value, mean.value))
    inverse = [Ratio(1 / value, 1 / ratio.draws) for value, ratio in zip(values, ratios, strict=True)]
    assert harness.geometric_mean([*ratios, *inverse]).value == pytest.approx(1)


@given(PAIRS)
def test_the_record_is_json_and_keeps_every_timing(pairs):
    race = race_of(pairs)
    record = json.loads(json.dumps({"race": race.dump(), "ratio": race.speedup("ours", "peer").dump()}))
    assert record["race"]["ours"]["seconds"] == list(race.seconds["ours"])
    assert record["ratio"]["low"] <= record["ratio"]["ratio"] <= record["ratio"]["high"]


# Races


class FakeTime:
    """A clock that only contestants move."""

    def __init__(self) -> None:
        self.now = 0.0
        self.ran: list[str] = []

    def contestant(self, name: str, *durations: float):
        turns = count()

        def run() -> None:
            self.now += durations[next(turns) % len(durations)]
            self.ran.append(name)

        return run


@pytest.fixture
def quiet(monkeypatch):
    monkeypatch.setattr(Reading, "now", classmethod(lambda cls: None))


@given(st.integers(5, 9), st.lists(st.floats(0.5, 2), min_size=2, max_size=4))
def test_every_round_has_every_contestant_once(repeats, durations):
    time = FakeTime()
    contestants = {f"c{n}": time.contestant(f"c{n}", duration) for n, duration in enumerate(durations)}
    race = harness.race(contestants, "c0", repeats=repeats, seconds=0, warm_up=1, clock=lambda: time.now)
    assert race.rounds == repeats
    ran = time.ran[len(contestants) :]
    rounds = [ran[n : n + len(contestants)] for n in range(0, len(ran), len(contestants))]
    assert all(sorted(one) == sorted(contestants) for one in rounds)
    for n, duration in enumerate(durations):
        assert race.seconds[f"c{n}"] == pytest.approx([duration] * repeats)


def test_the_order_is_drawn_anew():
    time = FakeTime()
    harness.race({name: time.contestant(name, 1.0) for name in "abc"}, "a", repeats=20, seconds=0, warm_up=0)
    assert len({tuple(time.ran[n : n + 3]) for n in range(0, 60, 3)}) > 1


def test_it_stops_when_the_ratio_is_known(quiet):
    time = FakeTime()
    contestants = {"ours": time.contestant("ours", 1.0), "peer": time.contestant("peer", 2.0)}
    race = harness.race(contestants, "ours", repeats=5, seconds=1e9, clock=lambda: time.now)
    assert race.rounds == 5


def test_it_goes_on_while_the_ratio_is_not_known(quiet):
    time = FakeTime()
    contestants = {"ours": time.contestant("ours", 1.0), "peer": time.contestant("peer", 1.0, 1.5, 2.0, 2.5, 1.2)}
    seen: list[int] = []

    def on_round(race: Race) -> None:
        seen.append(race.rounds)
        if race.rounds == 12:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        harness.race(contestants, "ours", seconds=1e9, clock=lambda: time.now, on_round=on_round)
    assert seen == list(range(1, 13))


def test_a_disturbed_timing_is_taken_again(monkeypatch):
    """Others take the machine during the first try; the second, which they leave alone, is kept."""
    others = iter([0.9, 0.0])
    monkeypatch.setattr(neighbours, "share", lambda before, after: next(others, 0.0))
    monkeypatch.setattr(neighbours, "wait", lambda end: None)
    time = FakeTime()
    contestants = {"ours": time.contestant("ours", 9.0, 1.0, 1.0, 1.0, 1.0, 1.0)}
    race = harness.race(contestants, "ours", seconds=1e9, warm_up=0, clock=lambda: time.now)
    assert race.seconds["ours"] == pytest.approx([1.0] * 5)
    assert race.others["ours"] == [0.0] * 5


def test_a_disturbed_timing_counts_when_time_is_up(monkeypatch):
    monkeypatch.setattr(neighbours, "share", lambda before, after: 0.9)
    time = FakeTime()
    race = harness.race({"ours": time.contestant("ours", 1.0)}, "ours", seconds=0, clock=lambda: time.now)
    assert race.others["ours"] == [0.9] * 5


def test_too_few_rounds_and_an_absent_contestant_are_refused():
    with pytest.raises(ValueError, match="repeats: 3 rounds say too little about spread; use at least 5"):
        harness.race({"ours": lambda: None}, "ours", repeats=3)
    with pytest.raises(ValueError, match="ours: 'us' does not run; the contestants are ours, peer"):
        harness.race({"ours": lambda: None, "peer": lambda: None}, "us")


# Neighbours

SPANS = st.tuples(st.floats(0.01, 100), st.floats(0, 1), st.floats(0, 1))


@given(SPANS)
def test_what_is_neither_idle_nor_ours_is_the_others(span):
    whole, idle, mine = span
    own = (1 - idle) * mine
    after = Reading(5 + whole, 3 + whole * idle, 2 + whole * own)
    assert neighbours.share(Reading(5, 3, 2), after) == pytest.approx(1 - idle - own, abs=1e-6)


def test_where_nobody_can_say_the_others_are_quiet():
    assert neighbours.share(None, None) == 0
    same = Reading(1, 1, 1)
    assert neighbours.share(same, same) == 0


def test_waiting_ends_with_the_time(monkeypatch):
    clock = count()
    monkeypatch.setattr(neighbours.time, "perf_counter", lambda: next(clock))
    monkeypatch.setattr(neighbours.time, "sleep", lambda seconds: None)
    monkeypatch.setattr(neighbours, "share", lambda before, after: 1.0)
    neighbours.wait(end=5)


# Records


def test_a_result_is_written_whole_or_not_at_all(tmp_path):
    path = tmp_path / "results" / "one.json"
    assert harness.write("one", {"speed": 1}, path) == path
    with pytest.raises(TypeError):
        harness.write("one", {"speed": object()}, path)
    assert json.loads(path.read_text()) == {"speed": 1}
    assert list(path.parent.iterdir()) == [path]


def test_the_fingerprint_names_machine_and_versions():
    seen = harness.fingerprint("numpy")
    assert seen["numpy"] == np.__version__
    assert seen["threads"] >= 1
    assert seen["cpu"]
    json.dumps(seen)


def test_a_gemm_has_a_rate():
    assert harness.gemm_peak(sizes=(8, 16), repeats=1) > 0
