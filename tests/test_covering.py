"""What runs by default meets every value; the rest of a product is left to `make stress`."""

import pytest

from tests.covering import cover


def pairs(mark):
    params = mark.args[1]
    return [one.values for one in params if not one.marks], [one.values for one in params if one.marks]


@pytest.mark.parametrize(("many", "few", "each"), [(7, 3, 1), (3, 3, 1), (9, 11, 4), (4, 11, 3), (5, 2, 2)])
def test_every_value_is_met_and_nothing_is_lost(many, few, each):
    now, later = pairs(cover("a, b", range(many), range(few), each=each))
    assert {a for a, _ in now} == set(range(many))
    assert {b for _, b in now} == set(range(few))
    assert sorted(now + later) == [(a, b) for a in range(many) for b in range(few)]
    assert len(now) == many * each


def test_too_few_to_meet_all_are_refused():
    with pytest.raises(ValueError, match="raise each"):
        cover("a, b", range(2), range(5))
