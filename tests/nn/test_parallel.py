"""Parts side by side are summed; attentions side by side are one whose heads are of several kinds."""

import pytest
import torch

from sublayer.nn.attention import MultiHead
from sublayer.nn.config import ConfigError
from sublayer.nn.feedforward import Dense
from sublayer.nn.parallel import Parallel
from sublayer.nn.part import Part, Slot
from sublayer.nn.scene import Scene
from sublayer.testing import around

WINDOW = {"kind": "window", "size": 3}
NEAR = MultiHead.Config(heads=2, head_dim=8, bias=False, pattern=WINDOW)
FAR = MultiHead.Config(heads=2, head_dim=8, bias=False)


def test_attentions_side_by_side_are_one_with_the_heads_of_all():
    both = Parallel.Config(parts={"near": NEAR, "far": FAR})
    heads = {"kind": "per_head", "members": [WINDOW, "causal"]}
    one = MultiHead.Config(heads=4, bias=False, pattern=heads)
    slot, x_BLD = Slot(32), torch.randn(2, 9, 32)
    whole, parts = one.build(slot), both.build(slot)
    with torch.no_grad():
        for n, part in enumerate(parts.parts.values()):
            mine = whole.qkv.weight.view(3, 2, 16, 32)[:, n]
            part.qkv.weight.copy_(mine.flatten(0, 1))
            part.output.weight.copy_(whole.output.weight[:, 16 * n : 16 * n + 16])
    scene = Scene(torch.arange(9)[None])
    assert (whole(x_BLD, scene)[0] - parts(x_BLD, scene)[0]).abs().max() < 1e-6
    assert both.params(slot) == one.params(slot)
    assert both.patterns == one.patterns


def test_overrides_reach_inside_by_name():
    model = around(Parallel.Config(parts={"near": NEAR, "far": FAR}))
    changed = model.but({"p.near.pattern.size": 5, "p.far": Dense.Config(inner=7)})
    parts = changed.stack.alphabet["p"].parts
    assert parts["near"].pattern.size == 5
    assert parts["far"] == Dense.Config(inner=7)
    assert hash(Part.Config.parse(changed.stack.alphabet["p"].dump())) == hash(changed.stack.alphabet["p"])
    varied = model.but({"vary": {"p.near.heads": [1, 4]}})
    assert [varied.stack.parts[n].parts["near"].heads for n in (1, 4)] == [1, 4]


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ({}, "parts: dictionary should have at least 1 item"),
        ({"items": NEAR}, "'items' cannot be the name of a part; use a word"),
        ({"a.b": NEAR}, "'a.b' cannot be the name of a part"),
        ({"near": NEAR, "far": FAR.but(pattern="full", memory="none")}, "far looks both ways, near back"),
        ({"read": {"kind": "cross", "heads": 2}}, "read: cross reads a source; give it a letter of its own"),
        ({"near": NEAR.but(heads=3, kv_heads=2)}, "near: kv_heads=2 does not divide heads=3"),
    ],
)
def test_what_makes_no_sense_is_refused(parts, message):
    with pytest.raises(ConfigError, match=message):
        around(Parallel.Config(parts=parts))


def test_it_uses_a_position_that_one_of_its_parts_uses():
    mixed = Parallel.Config(parts={"near": NEAR, "routed": {"kind": "routing", "heads": 2, "head_dim": 8}})
    assert around(mixed).but(position="rotary").stack.position.tag == "rotary"
    with pytest.raises(ConfigError, match="parallel does not use position=rotary"):
        around(Parallel.Config(parts={"routed": mixed.parts["routed"]})).but(position="rotary")
