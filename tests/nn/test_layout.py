"""Layouts: reading, writing, and the rules of Sandwich and PAR."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sublayer.nn.layout import (
    LayoutError,
    apply_rule,
    expand,
    needs_base,
    par,
    parse,
    put_on,
    repeats,
    sandwich,
    spell,
    write,
)

trees = st.recursive(
    st.sampled_from("sfcab"),
    lambda inner: st.tuples(st.lists(inner, min_size=1, max_size=3), st.integers(1, 4)),
    max_leaves=8,
)


@given(st.lists(trees, min_size=1, max_size=5))
def test_written_layouts_read_back(tree):
    assert expand(write(tree)) == expand(tree)


@given(st.text("sfc", min_size=1, max_size=40))
def test_spelled_words_read_back(word):
    assert expand(spell(word)) == word


def test_groups_nest_and_white_space_is_ignored():
    assert expand(" ( (s f)x2 c )x2 f ") == "sfsfcsfsfcf"


def test_repeats_are_those_of_the_top_level():
    assert repeats("(sfff)x2 (f)x3 s") == [4, 4, 1, 1, 1, 1]


@pytest.mark.parametrize(
    ("layout", "said"),
    [
        ("(sf", "without its ')'"),
        ("par(5,12", "without its ')'"),
        ("sf)x2", "without its '('"),
        ("()x2", "empty group"),
        ("", "empty"),
        ("(sf)x0", "at least 1"),
        ("sfx3", "right after ')'"),
        ("(s1)x3", "'1'"),
    ],
)
def test_unreadable_layouts_say_why_in_one_line(layout, said):
    with pytest.raises(LayoutError) as error:
        parse(layout)
    assert said in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("base", "published"),
    [("(sf)x16", "(sfff)x6 (f)x8"), ("(sf)x12", "(sff)x5 (f)x9"), ("(sf)x18", "(sfff)x7 (f)x8")],
)
def test_par_gives_the_published_layouts(base, published):
    assert par(base, 5) == published


@pytest.mark.parametrize(
    ("base", "k", "published"),
    [
        ("(sf)x16", 6, "(s)x6 (sf)x10 (f)x6"),
        ("(sf)x18", 6, "(s)x6 (sf)x12 (f)x6"),
        ("(sf)x12", 5, "(s)x5 (sf)x7 (f)x5"),
        ("(sf)x12", 3, "(s)x3 (sf)x9 (f)x3"),
    ],
)
def test_sandwich_gives_the_published_layouts(base, k, published):
    assert sandwich(base, k) == published


@given(st.integers(1, 40), st.floats(1, 10))
def test_par_keeps_the_length_and_counts_attentions(pairs, p):
    n = 2 * pairs
    if not 1 <= round(n / p) <= n:
        return
    word = expand(par(f"(sf)x{pairs}", p))
    assert len(word) == n
    assert word.count("s") == min(round(n / p), len(word.rstrip("f")) + 1)


def test_rules_apply_to_a_base_and_refuse_what_they_cannot():
    assert apply_rule("par(5)", "(sf)x16") == "(sfff)x6 (f)x8"
    assert apply_rule("(sf)x3", "(sf)x16") == "(sf)x3"
    with pytest.raises(LayoutError, match="sandwich"):
        apply_rule("sandwich(9)", "(sf)x4")
    with pytest.raises(LayoutError, match="par"):
        apply_rule("par(99)", "(sf)x4")


@pytest.mark.parametrize(
    ("rule", "layout"),
    [
        ("par(5,24)", par("(sf)x12", 5)),
        (" par( 5 , 24 ) ", par("(sf)x12", 5)),
        ("par(5,(sf)x6)", par("(sf)x6", 5)),
        ("sandwich(2,12)", sandwich("(sf)x6", 2)),
        ("par(5,sandwich(2))", par("(sf)x16", 5)),
        ("par(5,par(3,12))", par("(sf)x6", 5)),
        ("par(sf)x2", "par(sf)x2"),
        ("par(sf)", "par(sf)"),
    ],
)
def test_a_rule_may_name_what_it_stands_on(rule, layout):
    """A number of sublayers, a layout, or another rule; `par(sf)` is four letters."""
    assert apply_rule(rule, "(sf)x16") == layout


@pytest.mark.parametrize(
    ("rule", "answer"),
    [
        ("par(0)", r"par\(0\) of 8 sublayers leaves 0 attentions; choose p between 1 and 8"),
        ("par(5,2)", r"par\(5\) of 2 sublayers leaves 0 attentions; choose p between 1 and 2"),
        ("par(5,0)", r"'par\(5,0\)' stands on 0 sublayers; give a whole number from 1 to 4096"),
        ("par(5,-3)", r"stands on -3 sublayers"),
        ("par(5,1.5)", r"stands on 1\.5 sublayers"),
        ("par(5,99999999999999)", r"stands on 9+ sublayers; give a whole number from 1 to 4096"),
        ("par(5,)", r"'par\(5,\)' is not a rule; write par\(NUMBER\), or par\(NUMBER,BASE\)"),
        ("par()", r"is not a rule; write par\(NUMBER\)"),
        ("par(-5)", r"is not a rule"),
        ("par(5,12,3)", r"layout '12,3' has '1'"),
        ("sandwich(1.5)", r"moves a whole number of attentions; use sandwich\(1\)"),
        ("sandwich(2,3)", r"needs an even layout of at least 4 sublayers, got 3"),
        ("sandwich(7,12)", r"of at least 14 sublayers, got 12"),
    ],
)
def test_a_rule_that_cannot_be_applied(rule, answer):
    with pytest.raises(LayoutError, match=answer):
        apply_rule(rule, "(sf)x4")


def test_a_rule_is_put_on_the_layout_before_it():
    assert put_on("par(5)", "(sf)x6") == "par(5,(sf)x6)"
    assert put_on("par(5,12)", "(sf)x6") == "par(5,12)"
    assert put_on("(sf)x2", "(sf)x6") == "(sf)x2"
    assert [needs_base(one) for one in ("par(5)", "par(5,12)", "(sf)x2", 5)] == [True, False, False, False]
