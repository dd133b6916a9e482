"""Orders of episodes: each once an epoch, lanes that go on where they stopped, cursors that resume bit for bit."""

import json

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from sublayer.data.tasks import Chains, Episodes, Examples, exam

sizes = st.tuples(st.integers(1, 5), st.integers(1, 7), st.integers(0, 5))


def made(lengths):
    """Tokens that name their own place; a third of them ask, for twice that number."""
    start_E = np.concatenate([[0], np.cumsum(lengths)])
    place_N = np.arange(start_E[-1])
    return Examples("train", place_N, np.where(place_N % 3 == 0, 2 * place_N, -1), start_E)


def order(kind, examples, batch, length, **more):
    return Chains(examples, batch, length, **more) if kind is Chains else Episodes(examples, batch, **more)


def take(batches, count):
    return [next(batches) for _ in range(count)]


@given(sizes)
def test_weights_mark_what_is_asked_and_padding_is_not_valid(size):
    batch, _, seed = size
    examples = made([5, 3, 8, 1, 6, 7, 2])
    for found in take(Episodes(examples, batch, seed=seed), 9):
        for row in range(batch):
            valid = slice(None) if found.valid_BL is None else found.valid_BL[row]
            place = found.inputs_BL[row][valid]
            episode = int(np.searchsorted(examples.start_E, int(place[0]), side="right")) - 1
            assert place.tolist() == list(range(*examples.start_E[episode : episode + 2]))
            assert found.weights_BL[row][valid].tolist() == (place % 3 == 0).tolist()
            asked = found.weights_BL[row] > 0
            assert (found.targets_BL[row][asked] == 2 * found.inputs_BL[row][asked]).all()
            if found.valid_BL is not None:
                assert not found.weights_BL[row][~found.valid_BL[row]].any()


@given(sizes)
def test_each_epoch_visits_each_episode_once(size):
    batch, _, seed = size
    examples = made([2, 3, 4, 1, 5])
    starts = torch.cat([found.inputs_BL[:, 0] for found in take(Episodes(examples, batch, seed=seed), 15)])
    epochs = starts[: 15 * batch // 5 * 5].view(-1, 5)
    assert all(sorted(epoch.tolist()) == examples.start_E[:-1].tolist() for epoch in epochs)


@given(st.integers(1, 4), st.integers(1, 6))
def test_chains_go_on_and_begin_with_episodes(batch, length):
    examples = made([7] * 9)
    chains = Chains(examples, batch, length)
    before = None
    for found in take(chains, 30):
        first = found.inputs_BL[:, 0]
        if found.fresh:
            assert (first % 7 == 0).all()
        else:
            assert torch.equal(first, before + 1)
        before = found.inputs_BL[:, -1]
        assert found.inputs_BL.shape == (batch, length)
        assert torch.equal(found.weights_BL, (found.inputs_BL % 3 == 0).float())


@given(sizes, st.integers(0, 9), st.integers(1, 3))
def test_a_cursor_resumes_bit_for_bit_on_any_number_of_processes(size, done, world):
    batch, length, seed = size
    examples = made([8, 7, 9] * 5)
    for kind in (Episodes, Chains):
        first = order(kind, examples, batch * world, length, seed=seed)
        take(first, done)
        cursor = json.loads(json.dumps(first.cursor))
        expected = take(first, 4)
        more = {"seed": seed, "world": world, "cursor": cursor}
        ranks = [order(kind, examples, batch * world, length, rank=rank, **more) for rank in range(world)]
        for whole in expected:
            shares = [next(rank) for rank in ranks]
            for name in ("inputs_BL", "targets_BL", "weights_BL"):
                assert torch.equal(torch.cat([getattr(share, name) for share in shares]), getattr(whole, name))
            assert all(share.fresh == whole.fresh for share in shares)
            weights = [float(share.weights_BL.sum()) for share in shares]
            if sum(weights):
                assert [share.share for share in shares] == pytest.approx([world * w / sum(weights) for w in weights])
            else:
                assert [share.share for share in shares] == [0.0] * world
        assert all(rank.cursor == first.cursor for rank in ranks)


@given(st.integers(1, 6), st.integers(1, 9), st.integers(1, 2), st.booleans())
def test_an_exam_asks_everything_once(batch, length, world, carry):
    examples = made([5, 3, 8, 1, 6, 7, 2])
    asked = []
    for rank in range(world):
        passes = list(exam(examples, batch * world, length, carry=carry, rank=rank, world=world))
        for found in passes:
            there = found.weights_BL > 0
            asked += found.inputs_BL[there].tolist()
            episodes = np.searchsorted(examples.start_E, found.inputs_BL[there].numpy(), side="right") - 1
            assert found.episode_BL[there].tolist() == episodes.tolist()
    assert sorted(asked) == np.flatnonzero(examples.asked).tolist()


def test_wrong_ones_are_refused():
    with pytest.raises(
        ValueError, match="train: 3 episodes are too few for 4 lanes with one segment of 2; use a small"
    ):
        Chains(made([2, 2, 2]), 4, 2)
    with pytest.raises(ValueError, match="cursor: belongs to batches with seed=0, here it is 1"):
        Episodes(made([2, 2]), 1, seed=1, cursor=Episodes(made([2, 2]), 1).cursor)
