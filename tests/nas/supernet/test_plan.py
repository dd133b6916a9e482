"""Phases, temperature and the end of a search, as functions of the step."""

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from sublayer.nas.supernet import SearchConfig
from sublayer.nas.supernet.plan import Plan

searches = st.builds(
    SearchConfig,
    steps=st.integers(1, 400),
    still=st.floats(0, 0.9),
    share=st.floats(0.05, 0.9),
    round=st.none() | st.integers(2, 60),
)
plans = st.builds(Plan.of, searches, st.integers(1, 1000))


@given(plans)
def test_the_stage_is_as_long_as_the_steps_that_tune(plan):
    assert plan.stage == sum(plan.tunes(step) for step in range(plan.steps))


@given(plans)
def test_the_architecture_waits_and_each_round_has_both_phases(plan):
    assert not any(plan.tunes(step) for step in range(plan.still))
    first = [plan.tunes(step) for step in range(plan.still, plan.still + plan.round)]
    assert first == sorted(first)
    assert 0 < sum(first) < plan.round


def test_the_paper():
    """10k of 50k steps still, then a fifth of each epoch."""
    plan = Plan.of(SearchConfig(steps=50_000), epoch=3200)
    assert (plan.still, plan.round, plan.tuned) == (10_000, 4000, 800)
    assert plan.stage == 8000


@given(plans)
def test_the_temperature_falls_from_hot_to_cold_by_one_factor(plan):
    assert plan.temperature(0) == plan.temperature(plan.still) == plan.hot
    assume(plan.steps - plan.still > 2)
    assert plan.temperature(plan.steps) == pytest.approx(plan.cold)
    a, b, c = (plan.temperature(plan.still + n) for n in range(3))
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
    plan = Plan(steps=100, still=0, round=5, tuned=1, hot=5, cold=1, settled_share=0.75)
    assert plan.stage == 20
    assert not plan.settled(14, 0)
    assert plan.settled(15, 0)
    assert not plan.settled(20, 6)
    assert plan.settled(20, 5)
