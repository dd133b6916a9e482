"""Schedules: what share of the rate a step takes, from the first to the last."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sublayer.training.schedule import Schedule

KINDS = ["cosine", "linear", "inverse_sqrt", "constant"]


def rates(kind, steps=100, warmup=10):
    schedule = Schedule.Config.parse(kind).build()
    return [schedule.rate(step, warmup, step / steps) for step in range(steps + 1)]


@pytest.mark.parametrize(
    ("kind", "risen", "middle", "last"),
    [
        ("cosine", 1.0, 0.55, 0.1),
        ({"kind": "cosine", "floor": 0}, 1.0, 0.5, 0.0),
        ("linear", 1.0, 0.55, 0.1),
        ({"kind": "linear", "floor": 0.5}, 1.0, 0.75, 0.5),
        ("inverse_sqrt", 1.0, math.sqrt(10 / 56), math.sqrt(10 / 101)),
        ("constant", 1.0, 1.0, 1.0),
    ],
    ids=str,
)
def test_first_risen_middle_and_last(kind, risen, middle, last):
    """The peak is reached, and the fall is in its middle half-way between the warm-up and the end."""
    found = rates(kind)
    assert found[0] == pytest.approx(0.1, rel=1e-9)
    assert (found[9], found[10], found[55], found[100]) == pytest.approx(
        (risen, risen if kind != "inverse_sqrt" else math.sqrt(10 / 11), middle, last)
    )


@given(st.sampled_from(["cosine", "linear"]), st.integers(0, 30), st.integers(31, 60))
def test_the_fall_begins_after_the_warmup_as_elsewhere(kind, warmup, steps):
    """As PyTorch has it: a warm-up, then a schedule of its own over the steps that are left."""
    found = rates(kind, steps, warmup)
    alone = rates(kind, steps - warmup, 0)
    assert found[warmup:] == pytest.approx(alone)


def test_without_a_warmup_the_budget_is_taken_as_it_is():
    schedule = Schedule.Config.parse("cosine").build()
    for spent in (0.0, 0.1, 1 / 3, 0.7, 1.0):
        assert schedule.rate(7, 0, spent) == schedule.share(8, 1, spent)


@given(st.sampled_from(KINDS), st.integers(0, 30), st.integers(1, 60))
def test_up_and_then_never_up_again(kind, warmup, steps):
    found = rates(kind, steps, warmup)
    assert all(0 < rate <= 1 for rate in found)
    after = found[warmup:]
    assert after == sorted(after, reverse=True)


def test_a_budget_that_is_more_than_spent():
    assert Schedule.Config.parse("linear").build().rate(200, 0, 1.7) == pytest.approx(0.1)
