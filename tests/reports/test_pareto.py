"""Which models a front's line goes through, and which pairs are drawn."""

from hypothesis import given
from hypothesis import strategies as st

from sublayer.reports.pareto import ParetoAxis, Point, figures, nondominated, pairs
from sublayer.reports.units import scale

points = st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9), st.integers(0, 9)), min_size=1, max_size=30)
QUALITY = ParetoAxis("decoder_params", True, scale("decoder_params", [1e6]))
LATENCY = ParetoAxis("latency", False, scale("latency", [1e-3]))
MEMORY = ParetoAxis("memory", False, scale("memory", [1e6]))
THREE = (QUALITY, LATENCY, MEMORY)


def made(values):
    return [Point(number, "sf", tuple(map(float, one))) for number, one in enumerate(values)]


@given(points)
def test_no_point_beats_one_of_the_line(values):
    line = nondominated(made(values), (0, 1), THREE)
    best = {(one.values[0], one.values[1]) for one in line}
    for q, t, _ in values:
        assert any(quality >= q and took <= t for quality, took in best)
        assert not any(q >= quality and t <= took and (q, t) != (quality, took) for quality, took in best)
    assert [one.values[1] for one in line] == sorted(one.values[1] for one in line)


def test_pairs_where_there_is_a_choice():
    """The first objective with each; two costs only where they pull apart."""
    together = made([(n, n, n) for n in range(5)])
    apart = made([(9, n, 5 - n) for n in range(5)])
    assert pairs(THREE, together) == [(0, 1), (0, 2)]
    assert pairs(THREE, apart) == [(0, 1), (0, 2), (1, 2)]
    assert pairs(THREE[:2], together) == [(0, 1)]


def test_the_step_holds_until_the_next_model():
    """With a budget of time, the best model within it; a quality that is asked for is met by the next one."""
    chart = figures(THREE[:2], made([(n, n) for n in range(3)]), [], 3)[0].chart.to_dict()
    assert chart["layer"][0]["mark"]["interpolate"] == "step-after"
    turned = ParetoAxis("speed", True, scale("speed", [1.0]))
    chart = figures((QUALITY, turned), made([(n, 3 - n) for n in range(3)]), [], 3)[0].chart.to_dict()
    assert chart["layer"][0]["mark"]["interpolate"] == "step-before"
