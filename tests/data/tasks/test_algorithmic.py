"""Algorithmic: programs keep their rules, and every label is what the program prints."""

import re
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sublayer.data.tasks import Algorithmic
from sublayer.data.tasks.program import printed

TEXT = """
x = 1 ; print x ; x ++ ; print x ; z = 8 ; print z ; print z ; x -- ; if x > z : z -- ; z ++ ;
print z ; print x ; print x ; if z < x : z ++ ; x ++ ; z -- ; x -- ; if z > x : z -- ; z ++ ;
if x > z : z ++ ; if z < 5 : y = 7 ; print x ; if x > z : z ++ ; x ++ ; y = 7 ; if x > 10 : x
-- ; y -- ; x ++ ; z ++ ; print z ; y -- ; print x ; print x ; z ++ ; y ++ ; y ++ ; if z < 3 :
y ++ ; if x > 4 : x ++ ; z -- ; x -- ; x -- ; print x ; y ++ ; z ++ ; y -- ; if x > z : z -- ;
x ++ ; z -- ; print x ; z ++ ; print y ; y ++ ; y -- ; x -- ; print x ; y ++ ; print y ; y --
; if z < x : x ++ ; if z > 4 : y -- ; z -- ; x ++ ; if y < x : y ++ ; print y ; print z ; z --
; y -- ; x ++ ; y -- ; y ++ ; if y > 3 : z -- ; y ++ ; if z < 10 : z ++ ; z ++ ; y -- ; z ++ ;
print z ; x -- ; y -- ; x -- ; x ++ ; if x < 4 : y -- ; print y ; print z ; if z > x : y -- ;
print z ; if y < x : x -- ; print x ; print z ; if x < 4 : z -- ; if z < y : z ++ ; z -- ; x --
; print x ; if z < x : y ++ ; print x ; print z ; y -- ; if z < 6 : x ++ ; z -- ; END
"""
TABLE_7 = TEXT.split()
BY_HAND = [1, 2, 8, 8, 9, 1, 1, 1, 9, 3, 3]
"""What its first three lines and a half print."""
configs = st.builds(
    Algorithmic.Config,
    variables=st.integers(1, 6),
    length=st.integers(5, 40),
    conditions=st.sampled_from(["order", "equality"]),
    seed=st.integers(0, 2**63 - 1),
    episodes=st.just(20),
)


def programs(task, examples):
    """Words and labels of each."""
    for start, stop in zip(examples.start_E[:-1], examples.start_E[1:], strict=True):
        words = [task.symbols[token] for token in examples.inputs_N[start:stop]]
        yield words, [None if label < 0 else label + 1 for label in examples.answers_N[start:stop].tolist()]


def by_python(words):
    """The brute force: the program as Python, run by Python."""
    lines = []
    for statement in " ".join(words).removesuffix("END").split(" ; "):
        statement = re.sub(r"(\w+) \+\+", r"\1 += 1", re.sub(r"(\w+) --", r"\1 -= 1", statement))
        lines.append(re.sub(r"print (\w+)", r"out.append(\1)", statement.strip()))
    out = []
    exec("\n".join(lines), {"out": out})
    return out


def test_table_7_by_hand():
    found = printed(TABLE_7)
    assert [value for value in found if value is not None][: len(BY_HAND)] == BY_HAND
    assert all(TABLE_7[n] == ";" and TABLE_7[n - 2] == "print" for n, value in enumerate(found) if value is not None)
    assert [value for value in found if value is not None] == by_python(TABLE_7)
    assert TABLE_7.count(";") == 100


@given(configs)
def test_labels_are_what_is_printed(config):
    task = config.build()
    for words, labels in programs(task, task.train):
        assert labels == printed(words)
        assert [label for label in labels if label is not None] == by_python(words)
        scored = [n for n, label in enumerate(labels) if label is not None]
        assert scored == [n + 2 for n, word in enumerate(words) if word == "print"]


@given(configs)
def test_a_name_is_asked_for_what_its_end_is_asked_for(config):
    ends, names = config.build(), config.but(asked="name").build()
    for (words, labels), (same, sooner) in zip(programs(ends, ends.train), programs(names, names.train), strict=True):
        assert same == words
        assert [*sooner[-1:], *sooner[:-1]] == labels


@given(configs)
def test_the_rules_hold(config):
    task = config.build()
    for words, _ in programs(task, task.train):
        assert words.count(";") == config.length
        assert words[-1] == "END"
        values = {}
        for statement in " ".join(words).removesuffix(" ; END").split(" ; "):
            follow(statement.split(), values)


def follow(statement, values):
    """Refuse what breaks a rule, and go on."""
    if statement[0] == "if":
        name, sign, other, nested = statement[1], statement[2], statement[3], statement[5:]
        assert name in values
        assert other in values or 1 <= int(other) <= 10
        assert other != name
        assert nested[0] not in ("if", "print")
        then = {"<": "__lt__", ">": "__gt__", "==": "__eq__"}[sign]
        holds = getattr(values[name], then)(values[other] if other in values else int(other))
        follow(nested, values if holds else dict(values))
    elif statement[0] == "print":
        assert statement[1] in values
    elif statement[1] == "=":
        assert statement[0] not in values  # once, and what a conditional skipped may still come
        values[statement[0]] = int(statement[2])
    else:
        values[statement[0]] += 1 if statement[1] == "++" else -1
    assert all(1 <= value <= 10 for value in values.values())


def test_kinds_are_as_probable_as_in_table_7():
    """Prints, increments, decrements and conditionals alike; an initialisation where one is left."""
    task = Algorithmic.Config(episodes=300).build()
    words = Counter(task.symbols[token] for token in task.train.inputs_N)
    assert words["print"] / 30_000 == pytest.approx(TABLE_7.count("print") / 100, abs=0.03)
    assert words["if"] / 30_000 == pytest.approx(TABLE_7.count("if") / 100, abs=0.04)
    assert words["<"] == pytest.approx(words[">"], rel=0.1)
    assert "==" not in task.symbols


def test_equality_compares_with_constants():
    task = Algorithmic.Config(episodes=50, conditions="equality").build()
    text = " ".join(task.symbols[token] for token in task.train.inputs_N)
    assert re.findall(r"if \w == \d+ :", text)
    assert not re.findall(r"if \w == [a-z]", text)
    assert not set("<>") & set(text)
