"""Choices and rules: as they are typed, and back."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sublayer.nas import Choice, Rule
from sublayer.nas.choice import chooses
from sublayer.nn.config import ConfigError

WORDS = st.text(st.sampled_from('ab(){}[]|.,/"x12 -\\'), max_size=8)
VALUES = st.one_of(st.none(), st.booleans(), st.integers(-99, 99), WORDS, st.dictionaries(WORDS, WORDS, max_size=2))


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("2|4|8", [2, 4, 8]),
        ("128..512/128", [128, 256, 384, 512]),
        ("1..3", [1, 2, 3]),
        ("100..300/150", [100, 250]),
        ("64|128..256/128|null", [64, 128, 256, None]),
        ("(sf)x2|par(5)|s f", ["(sf)x2", "par(5)", "s f"]),
        ('dense|{"kind": "glu", "activation": "a|b"}', ["dense", {"kind": "glu", "activation": "a|b"}]),
        ('"2"|2', ["2", 2]),
    ],
)
def test_texts_of_choices(text, values):
    choice = Choice.parse(text)
    assert list(choice.values) == values
    assert chooses(text)
    assert not choice.each
    assert Choice.parse(f"each({text})") == Choice(choice.values, each=True)


@given(st.lists(VALUES, min_size=1, max_size=6, unique_by=str), st.booleans())
def test_every_choice_reads_back_from_its_text(values, each):
    choice = Choice(tuple(values), each)
    assert Choice.parse(str(choice)) == choice


@given(st.integers(-50, 50), st.integers(1, 9), st.integers(3, 20))
def test_even_steps_are_known(low, step, count):
    values = tuple(range(low, low + step * count, step))
    assert Choice(values).steps == (values[0], values[-1], step)
    assert Choice((*values, values[-1] + step + 1)).steps is None


@pytest.mark.parametrize("text", ["128", "(sf)x4", "par(5)", "rotary", "[1,2]", '{"kind":"glu"}', "2,4,2", "0.5"])
def test_plain_values_are_no_choices(text):
    assert not chooses(text)


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("2||4", "empty value"),
        ("512..128/64", "write the lower bound first"),
        ("1..9/0", "has no effect"),
        ("1..99999999", "take a larger step"),
        ("2|4|2", "has 2 twice"),
    ],
)
def test_choices_that_are_none(text, answer):
    with pytest.raises(ConfigError, match=answer):
        Choice.parse(text)


def test_a_rule_reads_back_and_bounds():
    rule = Rule.parse("f.inner > 1.7*dim")
    assert Rule.parse(str(rule)) == rule
    assert rule.allows(171, {"dim": 100})
    assert not rule.allows(170, {"dim": 100})
    assert Rule.parse("s.heads<dim").allows(3, {"dim": 4})
    with pytest.raises(ConfigError, match=r"'f\.inner' is not a rule; write KEY>NUMBER\*KEY"):
        Rule.parse("f.inner")
