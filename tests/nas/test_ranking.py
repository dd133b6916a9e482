"""How well one number ranks what another says: hand examples, and what no change of scale, order or ties may move."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sublayer.nas import ranking

numbers = st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), min_size=3, max_size=12)
apart = st.lists(st.integers(-1000, 1000), min_size=4, max_size=12, unique=True)


def test_ranks_share_ties():
    assert ranking.ranks([30, 10, 20, 10]).tolist() == [3, 0.5, 2, 0.5]
    assert ranking.ranks([[1, 1, 1], [3, 2, 1]]).tolist() == [[1, 1, 1], [2, 1, 0]]


@given(numbers)
def test_ranks_count_those_below_and_half_of_those_alike(pairs):
    x = [a for a, _ in pairs]
    expected = [sum(b < a for b in x) + (x.count(a) - 1) / 2 for a in x]
    assert ranking.ranks(x).tolist() == expected


def test_spearman_by_hand():
    """1 − 6 Σ d²/(n(n² − 1)) without ties; Pearson of the shared ranks with them."""
    assert ranking.spearman([1, 2, 3, 4, 5], [2, 1, 4, 3, 5]) == pytest.approx(1 - 6 * 4 / (5 * 24))
    assert ranking.spearman([1, 2, 2, 3], [1, 2, 3, 4]) == pytest.approx(4.5 / math.sqrt(4.5 * 5))
    assert math.isnan(ranking.spearman([1, 1, 1], [1, 2, 3]))


def test_kendall_by_hand():
    """(pairs in order − pairs not)/√(pairs without ties here · there)."""
    assert ranking.kendall([1, 2, 3, 4], [1, 2, 4, 3]) == pytest.approx((5 - 1) / 6)
    assert ranking.kendall([1, 1, 2, 3], [1, 2, 3, 4]) == pytest.approx(5 / math.sqrt(5 * 6))
    assert math.isnan(ranking.kendall([1, 1, 1], [1, 2, 3]))


@given(apart, st.randoms(use_true_random=False))
def test_what_ranks_alone_decide(x, random):
    """Any scale that keeps the order changes nothing; turned around, the sign; reordered together, nothing."""
    y = list(x)
    random.shuffle(y)
    for measure in (ranking.spearman, ranking.kendall, lambda a, b: ranking.common_ratio(a, b, 0.5)):
        same = measure([value**3 + 7 for value in x], y)
        assert same == pytest.approx(measure(x, y))
        both = list(zip(x, y, strict=True))
        random.shuffle(both)
        assert measure(*zip(*both, strict=True)) == pytest.approx(same)
        assert measure(x, x) == pytest.approx(1)
    assert ranking.spearman([-value for value in x], y) == pytest.approx(-ranking.spearman(x, y))


@given(numbers)
def test_the_interval_holds_what_was_seen_and_is_the_same_each_time(pairs):
    x, y = zip(*pairs, strict=True)
    low, high = ranking.interval(x, y)
    assert (low, high) == pytest.approx(ranking.interval(x, y), nan_ok=True)
    if not math.isnan(low):
        assert -1 <= low <= high <= 1
    perfect = ranking.interval(range(9), range(9))
    assert perfect == pytest.approx((1, 1))


def test_more_models_narrow_the_interval():
    rng = np.random.default_rng(0)
    x = rng.normal(size=400)
    y = x + rng.normal(size=400)
    few, many = ranking.interval(x[:20], y[:20]), ranking.interval(x, y)
    assert many[0] < ranking.spearman(x, y) < many[1]
    assert many[1] - many[0] < (few[1] - few[0]) / 2


def test_common_ratio_by_hand():
    truth, proxy = [9, 8, 7, 6, 5, 4, 3, 2, 1, 0], [9, 0, 7, 8, 6, 1, 2, 3, 4, 5]
    assert ranking.common_ratio(proxy, truth, 0.1) == 1
    assert ranking.common_ratio(proxy, truth, 0.3) == pytest.approx(2 / 3)
    assert ranking.common_ratio(proxy, truth, 0.5) == pytest.approx(4 / 5)
    assert ranking.common_ratio(proxy, truth, 1) == 1


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2)), min_size=3, max_size=5))
def test_ties_at_the_border_count_as_chance_would_have_them(pairs):
    """The mean over all orders of those that tie, tried one by one."""
    proxy, truth = zip(*pairs, strict=True)
    n = len(proxy)
    best = round(0.5 * n)

    def tops(values):
        orders = itertools.permutations(range(n))
        return [set(order[:best]) for order in orders if list(order) == sorted(order, key=lambda at: -values[at])]

    shared = [len(one & other) / best for one in tops(proxy) for other in tops(truth)]
    assert ranking.common_ratio(proxy, truth, 0.5) == pytest.approx(sum(shared) / len(shared))


def test_front_distance_by_hand():
    """Proxy's front: a, c, e. True front: a, b, d, e. c lies nearest to b (b is as near as d is: the slower counts)."""
    latency = [1, 2, 3, 4, 5]
    perplexity = [50, 40, 45, 30, 20]
    assert ranking.front_distance([1, 0, 5, 4, 6], perplexity, latency) == pytest.approx((0 + 15 / 30 + 0) / 3)
    assert ranking.front_distance([1, 0, 5, 4, 6], perplexity, [1, 2, 2.9, 4, 5]) == pytest.approx((5 / 40) / 3)


@given(
    st.lists(st.tuples(st.integers(1, 9), st.integers(1, 9), st.integers(0, 9)), min_size=3, max_size=12),
    st.floats(0.001, 1000),
)
def test_front_distance_knows_no_unit_and_no_error_of_the_truth_itself(models, unit):
    perplexity, latency, proxy = (np.array(one, dtype=float) for one in zip(*models, strict=True))
    there = ranking.front_distance(proxy, perplexity, latency)
    assert there >= 0
    assert ranking.front_distance(proxy, perplexity, latency * unit) == pytest.approx(there)
    assert ranking.front_distance(proxy, perplexity * unit, latency) == pytest.approx(there)
    assert ranking.front_distance(-perplexity, perplexity, latency) == 0


def test_all_figures_as_plain_data():
    told = ranking.describe([1, 2, 3, 4], [40, 30, 20, 10], [1, 2, 3, 4])
    assert told["spearman"] == told["kendall"] == told["high"] == pytest.approx(1)
    assert told["common"] == {"10%": 1, "30%": 1, "50%": 1}
    assert told["front_distance"] == 0
    alike = ranking.describe([1, 1, 1], [3, 2, 1])
    assert (alike["spearman"], alike["kendall"], alike["low"], alike["front_distance"]) == (None,) * 4
