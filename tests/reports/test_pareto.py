"""Which models a front's line goes through, and which pairs are drawn."""

from hypothesis import given
from hypothesis import strategies as st

from sublayer.reports.pareto import Front, ParetoAxis, Point, figures, nondominated, pairs
from sublayer.reports.units import scale

points = st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9), st.integers(0, 9)), min_size=1, max_size=30)
QUALITY = ParetoAxis("decoder_params", True, scale("decoder_params", [1e6]))
LATENCY = ParetoAxis("latency", False, scale("latency", [1e-3]))
MEMORY = ParetoAxis("memory", False, scale("memory", [1e6]))
THREE = (QUALITY, LATENCY, MEMORY)


def made(values):
    return [Point(number, "sf", tuple(map(float, one))) for number, one in enumerate(values)]


def drawn(objectives, points, **more):
    return figures(Front(objectives, points, **more))[0].chart.to_dict()


def rows(chart):
    """All rows of all layers."""
    return [row for data in chart["datasets"].values() for row in data]


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
    chart = drawn(THREE[:2], made([(n, n) for n in range(3)]))
    assert chart["layer"][0]["mark"]["interpolate"] == "step-after"
    turned = ParetoAxis("speed", True, scale("speed", [1.0]))
    chart = drawn((QUALITY, turned), made([(n, 3 - n) for n in range(3)]))
    assert chart["layer"][0]["mark"]["interpolate"] == "step-before"


def test_a_limit_is_a_line_where_it_is_near_and_words_where_it_is_far():
    """One far away would press all points into a corner."""
    points = [Point(n, "sf", (1e6 * n, 1e-3 * n)) for n in range(1, 4)]
    near, far = (figures(Front(THREE[:2], points, limits={"latency": most}))[0] for most in (3.2e-3, 1.0))
    assert {"at": 3.2, "limit": "latency at most 3.2 ms"} in rows(near.chart.to_dict())
    assert "limit: latency at most 3.2 ms" in [one.label for one in near.key]
    assert not any("at" in row for row in rows(far.chart.to_dict()))
    assert "Beyond the chart: latency at most 1,000 ms." in far.note


def test_what_was_measured_and_trained_is_marked():
    plain = Point(1, "sf", (1e6, 1e-3), "s#1")
    within = Point(2, "sf", (2e6, 2e-3), "s#2", measured=(None, 2.1e-3), trained="runs/a")
    over = Point(3, "sf", (3e6, 3e-3), "s#3", measured=(None, 4e-3), above=True)
    figure = figures(Front(THREE[:2], [plain, within, over]))[0]
    chart = figure.chart.to_dict()
    rings = {row["name"]: row for row in rows(chart) if "ring" in row}
    assert rings.keys() == {"s#2", "s#3"}
    assert [rings["s#2"][side] for side in ("x2", "y2")] == [2.1, 2.0]  # latency as measured, parameters as counted
    assert rings["s#2"]["ring"] != rings["s#3"]["ring"]
    labels = {one.label for one in figure.key}
    assert {"measured", "measured, above a limit", "trained"} <= labels
    assert not {"measured", "trained"} & {one.label for one in figures(Front(THREE[:2], [plain]))[0].key}


def test_a_candidate_is_called_by_its_folder_and_number():
    chart = drawn(THREE[:2], made([(1, 1)]), trials=made([(1, 1), (0, 2)]), folder='a "b"')
    (calculate,) = (one["transform"][0]["calculate"] for one in chart["layer"] if "transform" in one)
    assert calculate == r'"a \"b\"#" + datum.number'


def test_a_front_that_was_predicted_anew_says_so():
    trials = made([(1, 1), (0, 2)])
    then, now = (figures(Front(THREE[:2], made([(1, 1)]), trials, 3, anew=anew))[0].note for anew in (True, False))
    assert "2 others of 3 models tried, within the limits, as predicted then" in then
    assert "2 others of 3 models tried, within the limits. " in now
