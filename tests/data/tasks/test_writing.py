"""Copy, reverse and counting: what is read, what is asked, and nothing else."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from sublayer.data.tasks import Copy, Counting, Reverse

seeds = st.integers(0, 2**63 - 1)


def episodes(task, examples):
    for start, stop in zip(examples.start_E[:-1], examples.start_E[1:], strict=True):
        words = [task.symbols[token] for token in examples.inputs_N[start:stop]]
        yield words, [task.symbols[token] if token >= 0 else None for token in examples.answers_N[start:stop]]


@given(st.integers(1, 12), st.integers(1, 20), seeds)
def test_copy_and_reverse(length, test_length, seed):
    for kind in (Copy, Reverse):
        task = kind.Config(length=length, test_length=test_length, seed=seed, episodes=7, valid=3, test=2).build()
        for examples, n in ((task.train, length), (task.valid, length), (task.test, test_length)):
            for words, answers in episodes(task, examples):
                digits = words[:n]
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


def test_counts_are_alike_probable():
    found = Counting.Config(length=10).build().train.lengths // 2
    assert np.abs(np.bincount(found)[1:] - 1000).max() < 150
