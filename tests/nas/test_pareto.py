"""Fronts and hypervolumes, against moocore's."""

import moocore
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from sublayer.nas import pareto


def clouds(coordinates, least=1):
    """Few values, so that there are ties and doubles; or any."""
    few, any_ = st.integers(0, 4).map(float), st.floats(0, 1, allow_subnormal=False)
    shape = st.tuples(st.integers(least, 40), st.just(coordinates))
    return st.one_of(*(arrays.arrays(float, shape, elements=elements) for elements in (few, any_)))


CLOUDS = st.integers(2, 4).flatmap(clouds)
CLOUDS_2_3 = st.integers(2, 3).flatmap(clouds)


@given(CLOUDS)
def test_the_front_is_what_nobody_beats(points):
    expected = np.flatnonzero(moocore.is_nondominated(points, keep_weakly=True))
    assert pareto.front(points).tolist() == expected.tolist()


@given(CLOUDS)
def test_fronts_rank_all_points(points):
    ranks = np.empty(len(points), dtype=int)
    for rank, places in enumerate(pareto.fronts(points)):
        ranks[places] = rank
    assert ranks.tolist() == moocore.pareto_rank(points).tolist()


@given(CLOUDS_2_3, st.sampled_from([0.5, 1.0, 3.0]))
def test_hypervolume(points, worst):
    reference = [worst] * points.shape[1]
    assert pareto.hypervolume(points, reference) == pytest.approx(moocore.hypervolume(points, ref=reference))


@pytest.mark.parametrize("coordinates", [2, 3])
def test_large_clouds(coordinates):
    rng = np.random.default_rng(0)
    points = -np.abs(rng.normal(size=(2500, coordinates)))
    points /= np.linalg.norm(points, axis=1, keepdims=True)
    assert len(pareto.front(points)) == 2500
    worst = [0.0] * coordinates
    assert pareto.hypervolume(points, worst) == pytest.approx(moocore.hypervolume(points, ref=worst))
    shifted = np.concatenate([points, points + 0.01])
    assert pareto.front(shifted).tolist() == np.flatnonzero(moocore.is_nondominated(shifted)).tolist()


@given(CLOUDS_2_3)
def test_a_share_of_the_box(points):
    best, worst = points.min(0), points.max(0) + 1
    expected = moocore.hypervolume(points, ref=worst) / np.prod(worst - best)
    share = pareto.share(points, best, worst)
    assert share == pytest.approx(expected)
    assert 0 < share <= 1 + 1e-12


@given(CLOUDS, st.integers(1, 50))
def test_spread_takes_the_ends_and_no_point_twice(points, count):
    chosen = pareto.spread(points, count)
    assert len(chosen) == len(set(chosen.tolist())) == min(count, len(points))
    if count >= points.shape[1]:
        assert points[chosen].min(0).tolist() == points.min(0).tolist()


def test_spread_is_even_along_a_line():
    line = np.array([[x, 100 - x] for x in range(101)])
    chosen = np.sort(line[pareto.spread(line, 5), 0])
    assert chosen.tolist() == [0, 25, 50, 75, 100]


def test_what_cannot_be_compared():
    assert pareto.front(np.empty((0, 3))).tolist() == []
    assert pareto.hypervolume(np.empty((0, 3)), [1, 1, 1]) == 0
    with pytest.raises(ValueError, match="not a number"):
        pareto.front([[0.0, float("nan")]])
    with pytest.raises(ValueError, match="expected two or three"):
        pareto.hypervolume([[1.0] * 4], [2.0] * 4)
