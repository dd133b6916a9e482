"""Copy, reverse and counting: what is read, what is asked, and nothing else."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sublayer.data.tasks import Copy, Counting, Reverse

seeds = st.integers(0, 2**63 - 1)


def episodes(task, examples):
    for start, stop in zip(examples.start_E[:-1], examples.start_E[1:], strict=True):
        words = [task.symbols[token] for token in examples.inputs_N[start:stop]]
        yield words, [task.symbols[token] if token >= 0 else None for token in examples.answers_N[start:stop]]


@given(st.integers(1, 12), st.integers(1, 12) | st.none(), st.integers(1, 20), seeds)
def test_copy_and_reverse(length, shortest, test_length, seed):
    least = min(shortest or length, length)
    sizes = {"length": length, "shortest": shortest and least, "test_length": test_length}
    for kind in (Copy, Reverse):
        task = kind.Config(**sizes, seed=seed, episodes=7, valid=3, test=2).build()
        for examples, few, most in (
            (task.train, least, length),
            (task.valid, least, length),
            (task.test, *2 * [test_length]),
        ):
            for words, answers in episodes(task, examples):
                n = words.index("|")
                digits = words[:n]
                assert few <= n <= most
                expected = digits if kind is Copy else digits[::-1]
                assert words == [*digits, "|", *expected[:-1]]
                assert answers == [None] * n + expected


@given(st.integers(1, 30), seeds)
def test_counting(length, seed):
    task = Counting.Config(length=length, seed=seed, episodes=20).build()
    for words, answers in episodes(task, task.train):
        n = words.count("A")
        assert 1 <= n <= length
        assert words == ["A"] * n + ["|"] + ["B"] * n
        assert answers == [None] * n + ["B"] * n + ["."]


def test_lengths_to_copy_are_alike_probable():
    found = Copy.Config(length=10, shortest=1).build().train.lengths // 2
    assert np.abs(np.bincount(found)[1:] - 1000).max() < 150


def test_the_shortest_is_no_longer_than_the_longest():
    with pytest.raises(ValueError, match=r"shortest=5 is more than length=4; use at most as many"):
        Copy.Config(length=4, shortest=5)


def test_counts_are_alike_probable():
    found = Counting.Config(length=10).build().train.lengths // 2
    assert np.abs(np.bincount(found)[1:] - 1000).max() < 150
