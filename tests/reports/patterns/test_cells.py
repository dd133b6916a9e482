"""What is drawn is what the predicate says, pair by pair or by its share."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from sublayer.nn.attention import pattern as members
from sublayer.reports.patterns import Panel
from sublayer.reports.patterns.cells import cells, side_of
from sublayer.reports.patterns.characters import framed, lines
from sublayer.reports.patterns.length import telling_length
from sublayer.reports.patterns.runs import runs, written

WINDOW = members.Window.Config(size=5)
PANELS = {
    "full": Panel(members.Full.Config()),
    "causal": Panel(members.Causal.Config()),
    "window": Panel(WINDOW),
    "both": Panel(members.Window.Config(size=4, look="both")),
    "strided": Panel(members.Strided.Config(stride=4)),
    "fixed": Panel(members.Fixed.Config(stride=6, summary=2)),
    "image": Panel(members.BlockLocal2D.Config(width=8, rows=2, columns=4, above=1, beside=2)),
    "permuted": Panel(members.Blockwise.Config(size=4, orders=((1, 2, 0),))),
    "bigbird": Panel(members.BigBird.Config(block=4, random=1).by_head(2)[1]),
    "remembered": Panel(members.Causal.Config(), sees=3),
    "nobody": Panel(members.Dilated.Config(of=members.Random.Config(block=3, blocks=1), by=2)),
}
panels = st.sampled_from(list(PANELS.values()))
lengths = st.integers(1, 70)


def pairs(panel, length):
    """Pair after pair: the slow, obvious form."""
    of = range(length)
    matrix = [[bool(panel.pattern.sees(torch.tensor(i), torch.tensor(j))) for j in of] for i in of]
    far = torch.arange(length)[:, None] - torch.arange(length)
    return torch.tensor(matrix) & (far <= (length if panel.sees is None else panel.sees))


@pytest.mark.parametrize("name", PANELS)
@pytest.mark.parametrize("length", [1, 23])
def test_a_cell_of_one_pair_is_the_predicate(name, length):
    found, seen_LL = cells(PANELS[name].seen, length, length), pairs(PANELS[name], length)
    assert found.side == 1
    assert torch.equal(found.share_RR.bool(), seen_LL)
    assert torch.equal(found.keys_L, seen_LL.sum(1))
    away = [(i - j) for i, j in seen_LL.nonzero().tolist()]
    assert (found.back, found.ahead) == (max([0, *away]), -min([0, *away]))


@given(panels, lengths, st.integers(1, 20))
def test_a_cell_has_the_share_of_its_pairs(panel, length, most):
    found = cells(panel.seen, length, most)
    i = torch.arange(length)
    seen_LL = panel.seen(i[:, None], i).expand(length, length).double()
    for (row, column), share in zip(
        torch.cartesian_prod(*[torch.arange(len(found.share_RR))] * 2).reshape(-1, 2).tolist(),
        found.share_RR.flatten().tolist(),
        strict=True,
    ):
        mine = seen_LL[row * found.side : (row + 1) * found.side, column * found.side : (column + 1) * found.side]
        assert share == pytest.approx(float(mine.mean()), abs=1e-6)
    assert found.keys == pytest.approx(float(seen_LL.sum()) / length)
    assert found.seen == pytest.approx(float(seen_LL.mean()))


@pytest.mark.parametrize("name", PANELS)
def test_long_texts_are_asked_in_shares_of_queries(name, monkeypatch):
    whole = cells(PANELS[name].seen, 50, 10)
    monkeypatch.setattr("sublayer.reports.patterns.cells.PAIRS", 150)
    again = cells(PANELS[name].seen, 50, 10)
    assert torch.equal(whole.share_RR, again.share_RR)
    assert torch.equal(whole.keys_L, again.keys_L)
    assert (whole.back, whole.ahead) == (again.back, again.ahead)


@given(st.integers(1, 20_000), st.integers(1, 200))
def test_cells_are_few_enough_and_no_smaller_than_half_of_what_there_is_room_for(length, most):
    side = side_of(length, most)
    assert -(-length // side) <= most
    assert side <= 2 * -(-length // most)


def test_cells_begin_where_blocks_do():
    assert side_of(512, 76) == 8
    assert side_of(1000, 64) == 20
    assert side_of(64, 64) == side_of(20, 64) == 1


@given(st.integers(1, 9), st.data())
def test_characters_are_the_cells_two_rows_a_line(size, data):
    row = st.lists(st.booleans(), min_size=size, max_size=size)
    matrix = torch.tensor(data.draw(st.lists(row, min_size=size, max_size=size))).float()
    drawn = lines(matrix)
    halves = {" ": (0, 0), "▀": (1, 0), "▄": (0, 1), "█": (1, 1)}
    rows = [[halves[mark][half] for mark in line] for line in drawn for half in (0, 1)]
    assert rows[:size] == matrix.int().tolist()
    assert all(sum(row) == 0 for row in rows[size:])


def test_shades_follow_the_share_and_are_neither_nothing_nor_all():
    shares = torch.tensor([[0.01, 0.4, 1.0, 0.99, 0.0], [0.0, 0.6, 0.5, 1.0, 0.02]])
    assert lines(shares) == ["░▒▓▓░"]
    assert framed(["ab"]) == ["┌──┐", "│ab│", "└──┘"]


@given(st.sets(st.integers(0, 99)))
def test_runs_are_the_keys(keys):
    found = []
    for run in written(sorted(keys)).split():
        ends, _, step = run.partition(":")
        first, _, last = ends.partition("-")
        found += range(int(first), int(last or first) + 1, int(step or 1))
    assert found == sorted(keys)


def test_runs_are_short():
    assert written([0, 1, 2, 7, 10, 13, 20, 30, 31]) == "0-2 7-13:3 20 30-31"
    assert runs(Panel(members.Dilated.Config(of=WINDOW, by=10)).seen, 50)[45] == "5-45:10"
    assert runs(Panel(members.Causal.Config(), sees=1).seen, 3) == ["0", "0-1", "1-2"]


@pytest.mark.parametrize(
    ("pattern", "length"),
    [
        (members.Causal.Config(), 64),
        (members.Full.Config(), 64),
        (members.Window.Config(size=8), 64),
        (members.Window.Config(size=128), 512),
        (members.Window.Config(size=100_000), 64),
        (members.Strided.Config(stride=128), 512),
        (members.Fixed.Config(stride=128, summary=100), 512),
        (members.Blockwise.Config(size=256, orders=((1, 0),)), 512),
        (members.Blockwise.Config(size=32, orders=((1, 0),)), 64),
    ],
    ids=str,
)
def test_a_text_is_as_long_as_it_takes_to_see_what_is_left_out(pattern, length):
    assert telling_length(Panel(pattern)) == length


def test_where_nobody_sees_anybody_no_long_text_helps():
    assert telling_length(Panel(members.Causal.Config(), sees=-1)) == 64


def test_no_more_tokens_are_drawn_than_the_model_can_read():
    assert telling_length(Panel(members.Window.Config(size=128)), end=300) == 300
    assert telling_length(Panel(members.Window.Config(size=128)), end=20) == 20
