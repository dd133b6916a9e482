"""Global tokens look at the text through projections of their own; the others do not use those."""

import pytest
import torch

from sublayer.nn.attention import LongformerAttention, Window
from sublayer.nn.config import ConfigError
from sublayer.nn.part import Slot
from sublayer.nn.scene import Scene

SLOT = Slot(32)
CONFIG = LongformerAttention.Config(heads=2, window=Window.Config(size=3, look="both"), globals=2)


def outputs(part, valid_BL=None):
    i_BL = torch.arange(9)[None] if valid_BL is None else (valid_BL.cumsum(1) - 1).clamp(min=0)
    x_BLD = torch.randn(2, 9, 32, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        return part(x_BLD, Scene(i_BL, valid_BL=valid_BL))[0]


def change(weight):
    with torch.no_grad():
        weight.add_(torch.randn_like(weight))


def test_only_global_tokens_use_the_projections_of_their_own():
    part = CONFIG.build(SLOT).eval()
    before = outputs(part)
    change(part.global_query.weight)
    change(part.global_key_value.weight)
    moved_BL = (outputs(part) != before).any(-1)
    assert moved_BL[:, :2].all()
    assert not moved_BL[:, 2:].any()


def test_global_tokens_use_no_other_projections():
    part = CONFIG.build(SLOT).eval()
    before = outputs(part)
    change(part.local.qkv.weight)
    moved_BL = (outputs(part) != before).any(-1)
    assert not moved_BL[:, :2].any()
    assert moved_BL[:, 2:].all()


def test_global_tokens_of_a_padded_row_are_its_first_real_ones():
    part = CONFIG.build(SLOT).eval()
    valid_BL = torch.arange(9) >= torch.tensor([[0], [4]])
    before = outputs(part, valid_BL)
    change(part.global_query.weight)
    moved_BL = (outputs(part, valid_BL) != before).any(-1)
    assert moved_BL.nonzero().tolist() == [[0, 0], [0, 1], [1, 4], [1, 5]]


def test_a_window_that_looks_back_is_refused():
    with pytest.raises(ConfigError, match=r"window=window looks back only, .*; use look=both, or multihead"):
        LongformerAttention.Config(window=Window.Config(size=3))


def test_windows_grow_with_depth():
    grown = LongformerAttention.Config.parse(
        {"kind": "longformer_attention", "window": {"kind": "longformer", "size": 9, "smallest": 3, "look": "both"}}
    )
    assert [grown.at(n, 3).window.size for n in range(3)] == [3, 6, 9]
