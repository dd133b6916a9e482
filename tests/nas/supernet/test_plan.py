"""Phases, temperature and the end of a search, as functions of the step."""

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from sublayer.nas.supernet import SearchConfig
from sublayer.nas.supernet.plan import Plan

searches = st.builds(
    SearchConfig,
    steps=st.integers(1, 400),
    warmup=st.floats(0, 0.9),
    share=st.floats(0.05, 0.9),
    round=st.none() | st.integers(2, 60),
)
plans = st.builds(Plan.of, searches, st.integers(1, 1000))


@given(plans)
def test_the_stage_is_as_long_as_the_steps_that_tune(plan):
    assert plan.stage == sum(plan.tunes(step) for step in range(plan.steps))


@given(plans)
def test_the_architecture_waits_and_each_round_has_both_phases(plan):
    assert not any(plan.tunes(step) for step in range(plan.warmup))
    first = [plan.tunes(step) for step in range(plan.warmup, plan.warmup + plan.round)]
    assert first == sorted(first)
    assert 0 < sum(first) < plan.round


def test_the_paper():
    """10k of 50k steps of warm-up, then a fifth of each epoch."""
    plan = Plan.of(SearchConfig(steps=50_000), epoch=3200)
    assert (plan.warmup, plan.round, plan.tuned) == (10_000, 4000, 800)
    assert plan.stage == 8000


@given(plans)
def test_the_temperature_falls_from_start_to_end_by_one_factor(plan):
    assert plan.temperature(0) == plan.temperature(plan.warmup) == plan.tau_start
    assume(plan.steps - plan.warmup > 2)
    assert plan.temperature(plan.steps) == pytest.approx(plan.tau_end)
    a, b, c = (plan.temperature(plan.warmup + n) for n in range(3))
    assert b / a == pytest.approx(c / b)


@given(plans, st.data())
def test_a_word_settles_when_it_stood_for_its_share_of_the_stage(plan, data):
    assume(plan.stage)
    changed = data.draw(st.integers(0, plan.stage))
    settled = [plan.settled(tuned, changed) for tuned in range(changed, plan.stage + 1)]
    assert settled == sorted(settled)
    assert settled[-1] == (plan.stage - changed >= 0.75 * plan.stage)
    assert not plan.settled(0, 0)


def test_three_quarters_exactly():
    plan = Plan(steps=100, warmup=0, round=5, tuned=1, tau_start=5, tau_end=1, patience=0.75)
    assert plan.stage == 20
    assert not plan.settled(14, 0)
    assert plan.settled(15, 0)
    assert not plan.settled(20, 6)
    assert plan.settled(20, 5)


def test_the_earlier_names_of_keys_are_read():
    old = {"still": 0.3, "hot": 4.0, "cold": 0.2, "settled": 0.5}
    config = SearchConfig.parse({"steps": 10, **old})
    assert (config.warmup, config.tau_start, config.tau_end, config.patience) == (0.3, 4.0, 0.2, 0.5)
    assert SearchConfig(steps=10).override(old, "search") == config
