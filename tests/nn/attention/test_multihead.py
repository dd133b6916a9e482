"""What is peculiar to multi-head attention: groups of heads, masks at the boundary, dropout."""

import pytest
import torch

import sublayer
from sublayer.nn.attention import MultiHead
from sublayer.nn.part import Slot
from sublayer.nn.scene import Scene
from sublayer.testing import small


@pytest.fixture
def model():
    torch.manual_seed(0)
    return small(sublayer.config("gpt2")).build().eval()


def test_grouped_heads_equal_repeated_keys_and_values():
    torch.manual_seed(0)
    grouped = MultiHead.Config(heads=4, kv_heads=2).build(Slot(16))
    plain = MultiHead.Config(heads=4).build(Slot(16))
    with torch.no_grad():
        for mine, theirs in ((grouped.qkv.weight, plain.qkv.weight), (grouped.qkv.bias, plain.qkv.bias)):
            mine.normal_()
            q, k, v = mine[:16], mine[16:24].view(2, 4, -1), mine[24:].view(2, 4, -1)
            repeated = [z.repeat_interleave(2, 0).reshape(16, *mine.shape[1:]) for z in (k, v)]
            theirs.copy_(torch.cat([q, *repeated]))
        plain.output.load_state_dict(grouped.output.state_dict())
    x_BLD, scene = torch.randn(2, 7, 16), Scene(torch.arange(7)[None])
    torch.testing.assert_close(grouped(x_BLD, scene)[0], plain(x_BLD, scene)[0])
    assert grouped(x_BLD, scene)[1].k.value.shape[1] == 2


def test_masks_are_checked_at_the_boundary(model):
    ids = torch.zeros(2, 5, dtype=torch.long)
    with pytest.raises(ValueError, match=r"valid: a mask is boolean, .* got torch.int64; write mask.bool\(\)"):
        model(ids, None, torch.ones(2, 5, dtype=torch.long))
    with pytest.raises(ValueError, match=r"valid: expected shape \(2, 5\), got \(2, 4\)"):
        model(ids, None, torch.ones(2, 4, dtype=torch.bool))


def test_ids_are_checked_at_the_boundary(model):
    with pytest.raises(ValueError, match="at least one token"):
        model(torch.zeros(2, 0, dtype=torch.long))
    with pytest.raises(ValueError, match="outside the vocabulary of 61"):
        model(torch.full((1, 2), 61))
    with pytest.raises(ValueError, match="positions: expected shape"):
        model(torch.zeros(2, 3, dtype=torch.long), position_BL=torch.zeros(2, 4, dtype=torch.long))


def test_a_row_with_nothing_to_see_gives_zeros_not_nan(model):
    ids = torch.zeros(2, 4, dtype=torch.long)
    valid = torch.tensor([[True] * 4, [False] * 4])
    for position in ("learned", "alibi", "shaw", "distance", "relative_xl", "rotary"):
        other = small(sublayer.config("gpt2", position=position)).build().eval()
        assert other(ids, None, valid)[0].isfinite().all()


def test_dropout_acts_in_training_only():
    part = MultiHead.Config(heads=2, dropout=0.5).build(Slot(8))
    torch.nn.init.normal_(part.qkv.weight)
    x_BLD, scene = torch.randn(1, 6, 8), Scene(torch.arange(6)[None])
    assert not torch.equal(part(x_BLD, scene)[0], part(x_BLD, scene)[0])
    part.eval()
    assert torch.equal(part(x_BLD, scene)[0], part(x_BLD, scene)[0])
