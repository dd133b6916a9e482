"""Random walk: nobody leaves the grid, and every label is where a walker who goes step by step would be."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sublayer.data.tasks import RandomWalk


def walked(actions, size):
    """The slow twin: one walker, one action at a time."""
    row = column = size // 2
    heading, places = "north", []
    right = {"north": "east", "east": "south", "south": "west", "west": "north"}
    left = {after: before for before, after in right.items()}
    steps = {"north": (-1, 0), "east": (0, 1), "south": (1, 0), "west": (0, -1)}
    for action in actions:
        if action == "left":
            heading = left[heading]
        elif action == "right":
            heading = right[heading]
        else:
            there = (row + steps[heading][0], column + steps[heading][1])
            if all(0 <= axis < size for axis in there):
                row, column = there
        places.append(row * size + column)
    return places


@given(st.integers(2, 9), st.integers(1, 60), st.integers(0, 2**63 - 1))
def test_labels_are_where_a_walker_would_be(size, length, seed):
    task = RandomWalk.Config(size=size, length=length, seed=seed, episodes=5).build()
    inputs_EL = task.train.inputs_N.reshape(5, 1 + length)
    answers_EL = task.train.answers_N.reshape(5, 1 + length)
    for inputs, answers in zip(inputs_EL, answers_EL, strict=True):
        words = [task.symbols[token] for token in inputs]
        assert words[0] == "reset"
        assert "reset" not in words[1:]
        assert answers.tolist() == [-1, *walked(words[1:], size)]
        assert (answers[1:] < task.classes).all()


def test_walls_are_met():
    task = RandomWalk.Config(episodes=200).build()
    answers_EL = task.train.answers_N.reshape(200, 101)[:, 1:]
    inputs_EL = task.train.inputs_N.reshape(200, 101)[:, 1:]
    stays_EL = (np.diff(answers_EL, axis=1) == 0) & (inputs_EL[:, 1:] == task.symbols.index("forward"))
    assert stays_EL.any()
    assert set(np.unique(answers_EL)) == set(range(64))


def test_actions_are_alike_probable():
    counts = np.bincount(RandomWalk.Config().build().train.inputs_N)
    assert counts[3] == 10_000
    assert counts[:3] == pytest.approx(1_000_000 / 3, rel=0.01)
