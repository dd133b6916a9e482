from hypothesis import given
from hypothesis import strategies as st

from sublayer.measurement import grid


@given(st.integers(1, 10_000), st.sampled_from([grid.WIDTHS, grid.INNER]))
def test_a_size_lies_between_its_points(size, quarters):
    beside = grid.between(size, quarters)
    assert sum(share for _, share in beside) == 1
    assert abs(sum(rung * share for rung, share in beside) - size) < 1e-6 * size
    assert all(share > 0 for _, share in beside)


@given(st.integers(8, 10_000), st.sampled_from([grid.WIDTHS, grid.INNER]))
def test_points_are_their_own_points_and_near(size, quarters):
    for rung, _ in grid.between(size, quarters):
        assert grid.between(rung, quarters) == [(rung, 1.0)]
        assert 1 / 1.5 <= rung / size <= 1.5


def test_multiples_of_a_power_of_two_stay_multiples():
    assert [rung for rung, _ in grid.between(576, grid.WIDTHS)] == [512, 640]
    assert [rung for rung, _ in grid.between(2240, grid.INNER)] == [2048, 3072]
