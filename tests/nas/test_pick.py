"""Picking a model of a front: best, fastest and knee, with hand-made fronts."""

import numpy as np
import pytest

from sublayer.nas.pick import knee, pick
from sublayer.nas.records import SearchResult


def front(*rows, objectives=("params:max", "latency:min"), limits=None):
    """rows: values of the objectives, and the measured latency if there is one."""
    names, directions = zip(*(one.split(":") for one in objectives), strict=True)
    return SearchResult.model_validate(
        {
            "objectives": [
                {"name": name, "direction": f"{way}imize"} for name, way in zip(names, directions, strict=True)
            ],
            "limits": limits or {},
            "front": [
                {
                    "number": 10 * n,
                    "values": dict(zip(names, values, strict=False)),
                    "measured": {"latency": values[len(names)]} if len(values) > len(names) else None,
                }
                for n, values in enumerate(rows, 1)
            ],
        }
    )


FRONT = front((100, 1.0), (180, 2.0), (190, 4.0), (200, 9.0))


@pytest.mark.parametrize(("by", "number"), [("best", 40), ("fastest", 10), ("knee", 20)])
def test_each_way(by, number):
    assert pick(FRONT, by).number == number


def test_a_measurement_counts_before_a_prediction():
    result = front((100, 1.0, 3.0), (180, 2.0, 2.5), (190, 2.9))
    assert pick(result, "fastest").number == 20
    assert pick(result, "knee").number == 20


def test_what_is_measured_beyond_a_limit_is_left_out():
    result = front((100, 1.0), (180, 2.0, 6.0), (190, 4.0, 4.5), (200, 4.9, 5.1), limits={"latency": 5.0})
    assert {by: pick(result, by).number for by in ("best", "fastest")} == {"best": 30, "fastest": 10}
    with pytest.raises(ValueError, match="none of the 1 models of the front is within the limits when measured"):
        pick(front((100, 1.0, 6.0), limits={"latency": 5.0}), "best")


def test_a_disturbed_latency_proves_nothing_and_a_mark_is_followed():
    result = front((100, 1.0, 9.0), (180, 2.0, 2.5), (190, 4.0, 4.5), limits={"latency": 5.0})
    first, second, third = result.front
    assert first.measured is not None
    busy = first.model_copy(update={"measured": first.measured.model_copy(update={"disturbed": "others run"})})
    above = third.model_copy(update={"within": False})
    changed = result.model_copy(update={"front": (busy, second, above)})
    assert (pick(changed, "fastest").number, pick(changed, "best").number) == (10, 20)


def test_three_objectives_have_the_knee_nearest_to_the_ideal_point():
    objectives = ("params:max", "latency:min", "memory:min")
    result = front((100, 1.0, 1.0), (190, 2.0, 2.0), (200, 9.0, 9.0), objectives=objectives)
    assert pick(result, "knee").number == 20


@pytest.mark.parametrize(
    ("points", "index"),
    [
        ([[1, 1]], 0),
        ([[0, 4], [4, 0]], 0),
        ([[0, 4], [3, 3], [4, 0]], 0),
        ([[0, 400], [1, 100], [4, 0]], 1),
        ([[5, 5], [5, 5]], 0),
    ],
    ids=["one", "two", "a bulge", "unequal scales", "equal"],
)
def test_the_knee(points, index):
    assert knee(np.array(points, dtype=float)) == index


def test_what_cannot_be_picked():
    with pytest.raises(ValueError, match="pick=slowest: expected one of best, fastest, knee"):
        pick(FRONT, "slowest")
    with pytest.raises(ValueError, match="pick=fastest: the search did not predict latency; pick best or knee"):
        pick(front((1, 2), objectives=("params:max", "flops:min")), "fastest")
