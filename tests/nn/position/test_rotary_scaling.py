"""Scaled and partial rotations: transformers' partial turn, segments, and the generating fast path."""

import pytest
import torch
from transformers.models.gpt_neox.modeling_gpt_neox import apply_rotary_pos_emb

import sublayer
from sublayer.generation.native.step import angles
from sublayer.nn.config import ConfigError
from sublayer.nn.position import Rotary, RotaryScaling
from sublayer.nn.scene import Scene
from sublayer.testing import LAWS, Case

SCALINGS = [
    {"kind": "linear", "factor": 2.0},
    {"kind": "dynamic", "factor": 2.0, "length": 4},
    {"kind": "yarn", "factor": 4.0, "length": 4},
    {"kind": "llama3", "factor": 8.0, "length": 4},
]
each_scaling = pytest.mark.parametrize("scaling", SCALINGS, ids=lambda scaling: scaling["kind"])


def rotary(head_dim: int = 12, **fields) -> Rotary:
    config = Rotary.Config(base=50.0, **fields)
    config.check(head_dim, 1, head_dim)
    return Rotary(config, head_dim)


def test_all_kinds_are_tried():
    ours = {tag for tag, kind in RotaryScaling.Config.registry.items() if kind.__module__.startswith("sublayer.")}
    assert ours == {scaling["kind"] for scaling in SCALINGS}


def test_new_fields_do_not_change_old_hashes():
    assert Rotary.Config().dump() == {"kind": "rotary", "base": 10000.0}
    config = Rotary.Config(scaling=SCALINGS[0], partial=0.5)
    assert Rotary.Config.from_json(config.to_json()) == config


def test_a_part_of_the_features_turns_as_in_gpt_neox():
    """Theirs turns the first 4 features of 12, 0 with 2 and 1 with 3; ours 0 with 6 and 1 with 7."""
    torch.manual_seed(0)
    q, k = torch.randn(2, 1, 1, 9, 12, dtype=torch.float64)
    freqs = torch.arange(9)[:, None] * 50.0 ** -(torch.arange(0, 4, 2, dtype=torch.float64) / 4)
    emb = torch.cat([freqs, freqs], -1)[None]
    expected = apply_rotary_pos_emb(q, k, emb.cos(), emb.sin())
    order = torch.tensor([0, 1, 4, 5, 6, 7, 2, 3, 8, 9, 10, 11])  # of their features, as ours
    position, scene = rotary(partial=1 / 3), Scene(torch.arange(9)[None])
    for x, turn, there in zip((q, k), (position.query, lambda x, s: position.key(x, s, 0)), expected, strict=True):
        torch.testing.assert_close(turn(x[..., order], scene), there[..., order])


@each_scaling
@pytest.mark.parametrize("partial", [1.0, 0.5])
def test_the_generating_table_is_the_turn_of_each_position(scaling, partial):
    position = rotary(scaling=scaling, partial=partial)
    cos_MK, sin_MK = (x[0, 0] for x in position.angles(torch.arange(70)[None], torch.float32))
    table_MK = angles(position, 70)
    torch.testing.assert_close(table_MK[:, :6], cos_MK[:, :6])
    torch.testing.assert_close(table_MK[:, 6:], sin_MK[:, 6:])


@each_scaling
@pytest.mark.parametrize("paper", ["llama", "feedback"])
def test_laws_hold_with_scaled_rotations(scaling, paper):
    changes = {"vocab": 17, "dim": 16, "layout": "(sf)x2", "s.heads": 2}
    changes["position"] = {"kind": "rotary", "scaling": scaling, "partial": 0.5}
    case = Case(sublayer.config(paper, changes))
    for law in ("causality", "segmentation", "padding"):
        assert str(LAWS[law](case)) == "holds"


def test_positions_that_turn_differently_share_no_table():
    scene, q = Scene(torch.arange(5)[None]), torch.randn(1, 1, 5, 12)
    turned = [rotary(**fields).query(q, scene) for fields in ({}, {"partial": 0.5}, {"scaling": SCALINGS[0]})]
    assert not any(torch.equal(turned[a], turned[b]) for a, b in ((0, 1), (0, 2), (1, 2)))


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"partial": 0.25}, r"got 3 of head size 12 with partial=0\.25"),
        ({"partial": 1 / 6, "scaling": SCALINGS[1]}, "needs 4 turned features"),
    ],
)
def test_what_cannot_turn_is_refused(fields, words):
    with pytest.raises(ValueError, match=words):
        rotary(**fields)
    with pytest.raises(ConfigError, match=r"high=1\.0 must be above low=2\.0"):
        Rotary.Config(scaling={"kind": "llama3", "low": 2.0, "high": 1.0})
