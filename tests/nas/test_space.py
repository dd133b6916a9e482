"""Spaces: what is drawn is valid, what is valid can be read back."""

import json
import math
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

import sublayer
from sublayer.nas import Choice, Space
from sublayer.nn import layout as layouts
from sublayer.nn.config import ConfigError
from tests.nas import little

SPACE = little.space()
SEEDS = st.integers(0, 10**6)


def lies_in(genes):
    """Every gene among its choice's values, lists as long as the longest layout needs, rules kept."""
    for key, choice in SPACE.choices.items():
        values = genes[key] if choice.each else [genes[key]]
        assert len(values) == SPACE.most(key)
        assert all(value in choice.values for value in values)
    assert all(inner > genes["dim"] for inner in genes["f.inner"])


@given(SEEDS)
def test_what_is_drawn_lies_in_the_space(seed):
    rng = Random(seed)
    one, other = SPACE.sample(rng), SPACE.sample(rng)
    for genes in (one, SPACE.mutate(one, 0.3, rng), SPACE.cross(one, other, rng)):
        lies_in(genes)
        config = SPACE.config(genes)
        assert config.stack.layout == genes["layout"]
        word = layouts.expand(config.stack.layout)
        inner = [part.inner for letter, part in zip(word, config.stack.parts, strict=True) if letter == "f"]
        assert inner == genes["f.inner"][: word.count("f")]
        assert config in SPACE
        assert SPACE.used(SPACE.genes(config)) == SPACE.used(genes)


@given(SEEDS)
def test_one_seed_one_candidate(seed):
    assert SPACE.sample(Random(seed)) == SPACE.sample(Random(seed))


def test_mutation_and_crossover():
    rng = Random(0)
    one, other = SPACE.sample(rng), SPACE.sample(rng)
    assert SPACE.mutate(one, 0.0, rng) == one
    assert SPACE.cross(one, one, rng) == one
    changed = sum(SPACE.mutate(one, 0.3, rng)["dim"] != one["dim"] for _ in range(500)) / 500
    assert abs(changed - 0.3 * 6 / 7) < 0.08  # one in seven draws is the same value again
    child = SPACE.cross({**one, "dim": 32}, {**other, "dim": 32}, rng)
    both = zip(child["f.inner"], one["f.inner"], other["f.inner"], strict=True)
    assert all(gene in parents for gene, *parents in both)


def test_rules_do_not_keep_deep_and_wide_candidates_away():
    rng = Random(0)
    drawn = [SPACE.sample(rng) for _ in range(300)]
    assert {genes["dim"] for genes in drawn if genes["layout"] == "(sf)x4"} == set(SPACE.choices["dim"].values)


def test_genes_beyond_the_layout_change_nothing():
    genes = {**SPACE.sample(Random(0)), "layout": "(sf)"}
    ends = {**genes, "f.inner": [genes["f.inner"][0]] + [256] * (SPACE.most("f.inner") - 1)}
    assert SPACE.candidate(genes).hash == SPACE.candidate(ends).hash


def test_what_lies_outside():
    config = SPACE.config(SPACE.sample(Random(1)))
    assert config in SPACE
    for changes in ({"dim": 40}, {"vocab": 65}, {"position": "alibi"}, {"f.inner": 8}, {"s.heads": 16}):
        assert config.but(changes) not in SPACE
    alike = config.but({"layout": "(sf)x2", "s.heads": 2, "f.inner": 160, "dim": 128})
    assert alike in SPACE  # the same at each place, told once
    assert alike.but({"f.inner": 96}) not in SPACE  # the rule


def test_pairs_that_do_not_go_together():
    space = little.space({"dim": "48|50", "s.heads": "4|5"}, ())
    assert space.candidate({"dim": 48, "s.heads": 5}) is None
    with pytest.raises(ConfigError, match="heads=5 does not divide dim=48"):
        space.config({"dim": 48, "s.heads": 5})
    assert space.candidate({"dim": 50, "s.heads": 5}) is not None


def test_json_both_ways():
    assert Space.parse(json.loads(json.dumps(SPACE.dump()))) == SPACE


def test_keys_that_change_together():
    base = sublayer.config("transformer-xl")
    space = Space.of(base, {"embedding.factor,head.factor": "1|2|4"})
    config = space.config({"embedding.factor,head.factor": 2})
    assert (config.embedding.factor, config.head.factor) == (2, 2)
    assert config in space
    both = space.but({"dim": "64|128"})
    assert list(both.fitted(256).choices) == ["dim"]  # bytes have no clusters
    assert list(both.fitted(267735).choices) == list(both.choices)


def test_sizes():
    space = little.space({"dim": "1..10", "layout": "s|ss|ff", "s.heads": "each(1|2)"}, ())
    assert space.size == pytest.approx(math.log10(10 * (2 + 4 + 1)))


def test_fixed_keys_and_more_choices():
    less = SPACE.but({"position": Choice(("rotary", "alibi"))}, {"dim": 64, "f": "dense"})
    assert set(less.choices) == {"layout", "s.heads", "f.inner", "position"}
    config = less.config(less.sample(Random(0)))
    assert config.dim == 64
    assert all(inner > 64 for inner in config.stack.vary["f.inner"])


@pytest.mark.parametrize(
    ("choices", "rules", "answer"),
    [
        ({}, (), "the space is empty: nothing is to be chosen"),
        ({"dmi": "1|2"}, (), "unknown key 'dmi'; did you mean dim"),
        ({"dim": "each(1|2)"}, (), r"dim: each\(…\) is for a field of a letter"),
        ({"dim": "64|128"}, ("f.inner>dim",), r"f\.inner is not a choice"),
        ({"dim": "64|128", "f.inner": "64|128"}, ("f.inner>position",), "position is not one number"),
        ({"layout": "(sf)x0|s"}, (), "a repeat is at least 1"),
    ],
)
def test_spaces_that_are_none(choices, rules, answer):
    with pytest.raises(ValueError, match=answer):
        little.space(choices, rules)
