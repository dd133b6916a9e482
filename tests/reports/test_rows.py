"""Names above their rows."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from sublayer.reports.rows import LINE, WRAP, height, labels, rows


@given(st.lists(st.text(st.characters(categories=("L", "N", "P")), max_size=200), max_size=12))
def test_no_name_is_cut_and_none_lies_over_another(names):
    made = rows(names)
    for name, row in zip(names, made, strict=True):
        assert "".join(row.lines).strip() == name
        assert all(len(line) <= WRAP for line in row.lines)
        assert row.top + LINE * len(row.lines) < row.middle < row.bottom
    assert all(one.bottom <= other.top for one, other in pairwise(made))
    assert height(made) >= (made[-1].bottom if made else 1)


def test_names_that_begin_alike_stay_apart():
    same = "transformer-lm position=rotary layout=(sf)x4 f.inner="
    chart = labels(rows([f"{same}64", f"{same}128"])).to_dict()
    (data,) = chart["datasets"].values()
    assert [row["words"].replace("\n", " ") for row in data] == [f"{same}64", f"{same}128"]
