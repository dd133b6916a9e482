"""Every law over every paper and every member of every family, at odd lengths and odd cuts.

Not the full product: each paper and member tries every law, or its share of them, in one of its surroundings, and one
law in three on a text longer than all blocks and tiles. What is built is shared.
"""

from functools import cache
from unittest import mock
from zlib import crc32

import pytest

import sublayer
from sublayer.nn.attention import reference
from sublayer.nn.config import Config
from sublayer.nn.feedforward import Dense
from sublayer.nn.model import Model
from sublayer.nn.position import RelativeXL
from sublayer.objectives import Objective
from sublayer.testing import LAWS, Case, LawBroken, around, check, small
from sublayer.testing.check import Findings
from sublayer.testing.surroundings import FAMILIES, surround
from sublayer.testing.verdict import Verdict, law
from sublayer.training.schedule import Schedule
from tests.testing.members import all_kinds, kinds_in, members, spread

CUTS = [(3, 1, 7, 2), (1,), (5, 6), (2, 2), (7, 1, 1)]
MEMBERS = members()
ATTENTION = {"position", "pattern", "kernel", "memory", "span"}
"""Families whose members try half of the laws, in different surroundings; of the others each tries a fifth."""


@cache
def case_of(config_json: str, cuts: tuple[int, ...] = CUTS[0]) -> Case:
    """Papers and members that come to the same model share it."""
    return Case(Model.Config.from_json(config_json), seed=crc32(config_json.encode()) % 10_000, cuts=cuts)


def hold(name: str, case: Case, long: bool) -> Verdict:
    """The law holds, or says why it does not apply; never because it compared nothing."""
    law = LAWS[name]
    verdict = law(case)
    assert verdict.holds or "compared nothing" not in str(verdict), f"{name}: {verdict}"
    if long and law.long and verdict.holds:
        law(case.lengthened(law.long))
    return verdict


@pytest.mark.parametrize("paper", sublayer.names())
def test_every_paper(paper):
    config, number = small(sublayer.config(paper)), sublayer.names().index(paper)
    case = case_of(config.to_json(), CUTS[number % len(CUTS)])
    for n, name in enumerate(LAWS):
        if name != "training" or number % 5 == 0:  # a training takes as long as all others together
            hold(name, case, long=(n + number) % 3 == 0)


@pytest.mark.parametrize("member", MEMBERS)
def test_every_member(member):
    config, number = MEMBERS[member], list(MEMBERS).index(member)
    tried = surround(config)
    assert tried.models, tried.refused
    for law_name, model, long in spread(number, tried.models, 2 if config.family in ATTENTION else 5):
        hold(law_name, case_of(model.to_json()), long)


def test_no_kind_is_left_out():
    drawn = set[tuple[str, str]]()
    for member in MEMBERS.values():
        for model in surround(member).models.values():
            drawn |= kinds_in(model)
    assert not all_kinds() - drawn


def test_families_of_the_kit_are_known_to_check():
    families = {
        kind.family for kind in _subclasses(Config) if kind.__module__.startswith("sublayer.nn.") and kind.family
    }
    assert families == FAMILIES.keys()


def _subclasses(kind: type) -> set[type]:
    return {kind}.union(*(_subclasses(inner) for inner in kind.__subclasses__()))


def test_check_answers_for_every_law():
    findings = check(Dense.Config(inner=24))
    assert findings.keys() == LAWS.keys()
    assert str(findings["causality"]) == "holds"


def test_check_reports_pairs_that_are_refused():
    findings = Findings()
    findings.refused = surround(RelativeXL.Config(clamp=6)).refused
    assert "distances to the past only" in findings.refused["both ways"]
    assert "both ways: refused: " in str(findings)


def test_check_takes_a_model():
    verdicts = check(sublayer.config("bert-base"))
    assert str(verdicts["causality"]) == "not applicable: it reads both ways"
    assert verdicts["oracle"].holds


def test_check_takes_an_objective():
    findings = check(Objective.Config.parse("next_token"))
    assert findings["training"].holds
    assert "sees the token it would have to predict" in findings.refused["both ways"]


def test_check_refuses_what_it_knows_nothing_of():
    with pytest.raises(TypeError, match=r"the laws know nothing of a schedule .* give a member of part, position"):
        check(Schedule.Config.parse("constant"))


def test_a_law_that_compares_nothing_does_not_hold():
    empty = law("vacuous")(lambda case: None)
    del LAWS["vacuous"]
    assert str(empty(Case(around(Dense.Config())))) == "not applicable: it compared nothing"


def test_the_oracle_runs_the_slow_twin():
    with mock.patch.object(reference, "attend", wraps=reference.attend) as slow:
        assert LAWS["oracle"](Case(small(sublayer.config("gpt2")))).compared > 3
    assert slow.called


def test_the_long_case_is_beyond_every_block_and_tile():
    windowed = small(sublayer.config("gpt2")).but({"s.pattern": {"kind": "window", "size": 36}, "position": "rotary"})
    case = Case(windowed).lengthened(75)
    assert case.by_bands
    assert case.length > 144
    assert Case(small(sublayer.config("gpt2"))).lengthened(137).length == 137


def test_small_leaves_the_word():
    assert small(sublayer.config("sandwich-base")).stack.layout == "(s)x2 (sf)x2 (f)x2"
    assert around(Dense.Config()).stack.layout == "(spf)x2"
    assert issubclass(LawBroken, AssertionError)
