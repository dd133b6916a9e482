"""Ranges: sets of positions, and the slots in which they are stored."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from sublayer.nn.attention.ranges import before, disjoint, indices, since, slots

ranges = st.builds(
    lambda first, count, step: range(first, first + count * step, step),
    st.integers(0, 40),
    st.integers(0, 12),
    st.sampled_from([1, 1, 2, 3, 4, 6]),
)


@given(st.lists(ranges, max_size=6))
def test_disjoint_ranges_hold_each_number_once(given):
    found = [n for one in disjoint(given) for n in one]
    assert sorted(found) == sorted({n for one in given for n in one})


@given(ranges, st.integers(-3, 120))
def test_a_range_is_cut_in_two(one, at):
    assert list(before(one, at)) == [n for n in one if n < at]
    assert list(since(one, at)) == [n for n in one if n >= at]


@given(st.lists(ranges, max_size=5), st.sets(st.integers(0, 29)), st.integers(30, 60), st.booleans())
def test_slots_are_where_tokens_are_stored(tokens, far, first, drop):
    """Far ones first, in order; then all from `first` on. Some of what is asked for may not be stored."""
    tokens, far = disjoint(tokens), sorted(far)
    stored = [*far, *range(first, 130)]
    found = slots(tokens, first, torch.tensor(far, dtype=torch.long) if far or drop else None)
    at = sorted(int(n) for n in indices([*found, range(0)]))
    asked = {n for one in tokens for n in one}
    everything = sum(n < first for n in asked) == len(far)
    if everything and far:  # as many as there are: what is seen is stored, so these are they
        asked = {n for n in asked if n >= first} | set(far)
    assert at == [slot for slot, token in enumerate(stored) if token in asked]
