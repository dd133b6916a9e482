"""Batches: each window once an epoch, lanes that go on where they stopped, cursors that resume bit for bit."""

import json

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from sublayer.data import Lanes, Sweep, Windows

KINDS = {"windows": Windows, "lanes": Lanes}
sizes = st.tuples(st.integers(1, 6), st.integers(1, 9), st.integers(0, 200), st.integers(0, 5))


def text(batch, length, more=0):
    """Tokens that name their own place, enough for a batch."""
    return np.arange(batch * length + 1 + more, dtype=np.uint32)


def take(batches, count):
    return [next(batches) for _ in range(count)]


def same(one, other):
    return (
        torch.equal(one.inputs_BL, other.inputs_BL)
        and torch.equal(one.targets_BL, other.targets_BL)
        and one.fresh == other.fresh
    )


@given(sizes)
def test_targets_follow_their_inputs(size):
    batch, length, more, seed = size
    for kind in KINDS.values():
        for found in take(kind(text(batch, length, more), batch, length, seed=seed), 5):
            assert found.inputs_BL.shape == (batch, length)
            assert found.inputs_BL.dtype == found.targets_BL.dtype == torch.int64
            assert torch.equal(found.targets_BL, found.inputs_BL + 1)
            assert found.inputs_BL[:, 1:].equal(found.inputs_BL[:, :1] + torch.arange(1, length))
            assert found.weights_BL is None


@given(sizes, st.integers(0, 12), st.integers(1, 3))
def test_a_cursor_resumes_bit_for_bit_on_any_number_of_processes(size, done, world):
    batch, length, more, seed = size
    for kind in KINDS.values():
        ids = text(batch * world, length, more)
        first = kind(ids, batch * world, length, seed=seed)
        take(first, done)
        cursor = json.loads(json.dumps(first.cursor))
        expected = take(first, 4)
        ranks = [
            kind(ids, batch * world, length, seed=seed, rank=rank, world=world, cursor=cursor) for rank in range(world)
        ]
        for whole in expected:
            shares = [next(rank) for rank in ranks]
            assert torch.equal(torch.cat([share.inputs_BL for share in shares]), whole.inputs_BL)
            assert torch.equal(torch.cat([share.targets_BL for share in shares]), whole.targets_BL)
            assert all(share.fresh == whole.fresh for share in shares)
        assert all(rank.cursor == first.cursor for rank in ranks)


@given(sizes)
def test_each_epoch_visits_each_window_once(size):
    batch, length, more, seed = size
    windows = Windows(text(batch, length, more), batch, length, seed=seed)
    per_epoch = windows.windows
    starts = torch.cat([found.inputs_BL[:, 0] for found in take(windows, 3 * per_epoch)])  # batch · 3 epochs
    for epoch in starts.view(-1, per_epoch):
        steps = epoch.sort().values.diff()
        assert (steps == length).all()
    assert per_epoch * length <= windows.targets
    assert windows.targets - per_epoch * length < 2 * length


@given(sizes)
def test_windows_are_drawn_by_seed_and_epoch_alone(size):
    batch, length, more, seed = size
    ids = text(batch, length, more + 40 * length)
    one, wide = Windows(ids, 1, length, seed=seed), Windows(ids, batch, length, seed=seed)
    rows = torch.cat([found.inputs_BL for found in take(one, 3 * batch)])
    assert torch.equal(rows, torch.cat([found.inputs_BL for found in take(wide, 3)]))
    other = Windows(ids, 40, length, seed=seed + 1)
    assert not torch.equal(next(other).inputs_BL, next(Windows(ids, 40, length, seed=seed)).inputs_BL)


def test_offsets_and_orders_differ_between_epochs():
    windows = Windows(text(1, 10, 90), 8, 10)
    epochs = [next(windows).inputs_BL[:, 0] for _ in range(20)]
    assert len({tuple(epoch.tolist()) for epoch in epochs}) == 20
    assert len({int(epoch[0]) % 10 for epoch in epochs}) > 5


@given(sizes)
def test_lanes_go_on_where_they_stopped_until_they_say_so(size):
    batch, length, more, seed = size
    ids = text(batch, length, more)
    lanes = Lanes(ids, batch, length, seed=seed)
    passes, before = [], None
    for found in take(lanes, 3 * (lanes.lane // length)):
        if found.fresh:
            passes.append([])
        else:
            assert torch.equal(found.inputs_BL[:, 0], before.targets_BL[:, -1])
        passes[-1].append(found.targets_BL)
        before = found
    assert len(passes) == 3
    for segments in passes:
        seen = torch.cat(segments, dim=1)
        assert len(seen.unique()) == seen.numel() == batch * (lanes.lane // length) * length


def test_lanes_keep_their_place_when_the_length_grows():
    ids = text(2, 50)
    short = Lanes(ids, 2, 5)
    last = take(short, 3)[-1]
    longer = Lanes(ids, 2, 8, cursor=short.cursor)
    found = next(longer)
    assert not found.fresh
    assert torch.equal(found.inputs_BL[:, 0], last.targets_BL[:, -1])


@given(sizes, st.integers(1, 2))
def test_a_sweep_asks_for_every_token_once(size, world):
    batch, length, more, _ = size
    ids = np.arange(2 + more, dtype=np.uint16)
    ranks = [Sweep(ids, batch * world, length, rank=rank, world=world) for rank in range(world)]
    seen = []
    for sweep in ranks:
        batches = list(sweep)
        assert len(batches) == len(sweep)
        assert [found.fresh for found in batches] == [True] + [False] * (len(batches) - 1)
        for found in batches:
            assert torch.equal(found.targets_BL, found.inputs_BL + 1)
            kept = torch.ones_like(found.targets_BL) if found.weights_BL is None else found.weights_BL
            seen += found.targets_BL[kept == 1].tolist()
    assert sorted(seen) == list(range(1, len(ids)))


def test_a_batch_moves_whole():
    found = next(Sweep(np.arange(6), 2, 3))
    moved = found.to("meta")
    assert moved.inputs_BL.device.type == moved.targets_BL.device.type == moved.weights_BL.device.type == "meta"
    assert moved.fresh


def test_epochs_are_counted():
    windows = Windows(text(1, 10, 90), 4, 10)
    take(windows, 4)
    assert windows.epoch == 16 / windows.windows
    lanes = Lanes(text(1, 10, 90), 4, 10)
    take(lanes, 4)
    assert lanes.epoch > 1


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (
            lambda ids: Windows(ids, 2, 100),
            "100 tokens are too few for one window of 100 and its last target",
        ),
        (lambda ids: Lanes(ids, 10, 10), "too few for 10 lanes with one segment of 10; use batch=9 or length=9"),
        (lambda ids: Sweep(ids[:1], 1, 10), "1 tokens, at least 2 are needed"),
        (lambda ids: Windows(ids, 3, 10, world=2), "batch=3 cannot be shared evenly by 2 processes"),
        (lambda ids: Windows(ids, 0, 10), "both must be at least 1"),
    ],
)
def test_what_cannot_be_batched_is_told_in_one_line(make, said):
    with pytest.raises(ValueError, match=r".") as error:
        make(np.zeros(100, np.uint8))
    assert said in str(error.value)
    assert "\n" not in str(error.value)


def test_a_cursor_of_other_batches_is_refused():
    ids = text(4, 10)
    cursor = Windows(ids, 4, 10).cursor
    for make, said in (
        (lambda: Windows(ids, 4, 5, cursor=cursor), "cursor: belongs to batches with length=10, here it is 5"),
        (lambda: Windows(ids[:-1], 4, 5, cursor=cursor), "tokens=41, here it is 40"),
        (lambda: Windows(ids, 4, 10, seed=1, cursor=cursor), "seed=0, here it is 1"),
        (lambda: Lanes(ids, 4, 10, cursor=cursor), "kind=windows, here it is lanes"),
        (lambda: Lanes(ids, 2, 10, cursor=Lanes(ids, 4, 10).cursor), "batch=4, here it is 2"),
    ):
        with pytest.raises(ValueError, match=said):
            make()
