"""The package asks parts what they can do; the number of places that ask which kind they are must not grow."""

import pytest

from tests import identities

LIMIT = 14
"""To be lowered with every site that goes, never raised: a new question belongs to the family's base."""


def test_few_sites_ask_which_kind_a_thing_is():
    found = identities.sites()
    listed = "\n".join(map(str, found))
    assert len(found) <= LIMIT, f"{len(found)} sites ask for a concrete kind, at most {LIMIT} may:\n{listed}"


HERE = "training/request.py"
IMPORTS = """
from torch import Tensor, nn
from sublayer.nn.attention import MultiHead
from sublayer.nn.memory.base import Hidden
from sublayer.nn.model import Decoder, Encoder, Model
from sublayer.nn.part import Part
"""


@pytest.mark.parametrize(
    "code",
    [
        "isinstance(x, Decoder)",
        "not isinstance(x, (str, Decoder.Config))",
        "isinstance(x, Decoder | Encoder)",
        "issubclass(x.owner, MultiHead)",
        "isinstance(state, Hidden)",
        "type(x) is Decoder",
        "type(x) in (Decoder, Encoder)",
        "x.owner is not MultiHead",
        "x.tag == 'rotary'",
        "data['kind'] != 'rotary'",
        "data.get('kind') in ('rotary', 'alibi')",
        "{Decoder: 1}[type(x)]",
        "{}.get(type(x))",
        "[x for x in y if isinstance(x, Decoder)]",
    ],
)
def test_a_question_of_kind_is_counted(code):
    (site,) = identities.in_source(f"{IMPORTS}\n{code}", HERE)
    assert site.code == code


def test_a_class_pattern_and_an_import_in_a_function_are_counted():
    match = "match x:\n    case Decoder():\n        pass"
    late = "def ask(x):\n    from sublayer.nn.position import Rotary\n    return isinstance(x, Rotary)"
    assert len(identities.in_source(f"{IMPORTS}\n{match}\n{late}", HERE)) == 2


@pytest.mark.parametrize(
    "code",
    [
        "isinstance(x, (str, dict, Tensor, nn.Linear))",
        "isinstance(x, Model) or isinstance(x, Part.Config)",
        "type(x) is nn.LayerNorm",
        "type(x) is type(y)",
        "x.kind == 'no registered kind'",
        "print(x.tag, Decoder)",
    ],
)
def test_other_questions_are_not(code):
    assert not identities.in_source(f"{IMPORTS}\n{code}", HERE)


def test_the_file_of_a_kind_may_ask_for_it():
    assert not identities.in_source("isinstance(x, Decoder)", "nn/model/decoder.py")
