"""Permutations by key: each number once, any order about as likely as any other."""

from collections import Counter

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from sublayer.data.permutation import mix, permute

keys = st.integers(0, 2**64 - 1)


@given(st.integers(1, 3000), keys)
def test_each_number_comes_once(size, key):
    assert sorted(permute(np.arange(size), size, key)) == list(range(size))


@given(st.integers(1, 10**12), keys, st.lists(st.integers(0, 10**12), min_size=1, max_size=5))
def test_a_place_is_known_without_the_others(size, key, places):
    places = np.array(places) % size
    together = permute(places, size, key)
    assert ((together >= 0) & (together < size)).all()
    assert together.tolist() == [int(permute(places[n : n + 1], size, key)[0]) for n in range(len(places))]


def test_orders_differ_by_key_and_are_evenly_likely():
    """Of 2,400 drawn, each of the 24 orders of 4 is expected 100 times, with a deviation of 10."""
    seen = Counter(tuple(permute(np.arange(4), 4, mix(key)).tolist()) for key in range(2400))
    assert len(seen) == 24
    assert min(seen.values()) > 65
    assert max(seen.values()) < 145


def test_the_order_is_fixed_for_ever():
    """A run resumed under another version of a library sees the same batches."""
    assert permute(np.arange(10), 10, mix(1, 2)).tolist() == [4, 7, 8, 3, 6, 5, 1, 9, 0, 2]
    assert mix(1, 2, 3) == 0xD0734750FDE362B3
