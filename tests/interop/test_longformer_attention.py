"""With the weights of transformers' Longformer layer, ours gives its values and its gradients."""

import pytest
import torch
from torch import nn
from transformers import LongformerConfig
from transformers.models.longformer.modeling_longformer import LongformerSelfAttention

from sublayer.nn.attention import LongformerAttention, Window
from sublayer.nn.part import Slot
from sublayer.nn.scene import Scene
from tests.interop.tiny import shake

DIM, HEADS, SIDE, LENGTH, GLOBALS = 32, 2, 4, 40, 3
WEIGHTS = {
    "local.qkv": ("query", "key", "value"),
    "global_query": ("query_global",),
    "global_key_value": ("key_global", "value_global"),
}
"""Of each of our maps, those of theirs, one after the other."""


def both():
    """Theirs, and ours with its weights; theirs has no output projection."""
    config = LongformerConfig(hidden_size=DIM, num_attention_heads=HEADS, attention_window=[2 * SIDE])
    window = Window.Config(size=SIDE + 1, look="both")
    mine = LongformerAttention.Config(heads=HEADS, window=window, globals=GLOBALS).build(Slot(DIM)).eval()
    theirs = shake(LongformerSelfAttention(config, 0))
    with torch.no_grad():
        for name, parts in WEIGHTS.items():
            there = [theirs.get_submodule(part) for part in parts]
            mine.get_submodule(name).weight.copy_(torch.cat([part.weight for part in there]))
            mine.get_submodule(name).bias.copy_(torch.cat([part.bias for part in there]))
        nn.init.eye_(mine.local.output.weight)
    return theirs, mine


def run(theirs, mine, x_BLD, valid_BL):
    """The outputs of both on the same text, of real tokens."""
    chosen_BL = (torch.arange(LENGTH) < GLOBALS).expand_as(valid_BL)
    added_BL = (chosen_BL & valid_BL) * 1e4 + ~valid_BL * -1e4
    there = theirs(x_BLD, added_BL, ~valid_BL, added_BL > 0, True)[0]
    i_BL = torch.arange(LENGTH)[None]
    here = mine(x_BLD, Scene(i_BL) if valid_BL.all() else Scene(i_BL.expand_as(valid_BL), valid_BL=valid_BL))[0]
    return there[valid_BL], here[valid_BL]


@pytest.mark.parametrize("real", [LENGTH, LENGTH - 7, 2])
def test_longformer_attention_gives_the_values_of_transformers(real):
    x_BLD = torch.randn(2, LENGTH, DIM, generator=torch.Generator().manual_seed(1))
    valid_BL = torch.arange(LENGTH) < torch.tensor([[LENGTH], [real]])
    there, here = run(*both(), x_BLD, valid_BL)
    assert (here - there).abs().max() < 1e-5 * there.abs().max()


def test_longformer_attention_has_the_gradients_of_transformers():
    theirs, mine = both()
    x_BLD = torch.randn(2, LENGTH, DIM, generator=torch.Generator().manual_seed(2)).requires_grad_()
    valid_BL = torch.arange(LENGTH) < torch.tensor([[LENGTH], [LENGTH - 5]])
    slope = torch.linspace(-1, 1, DIM)
    for out in run(theirs, mine, x_BLD, valid_BL):
        (out * slope).sum().backward()
    for name, parts in WEIGHTS.items():
        there = torch.cat([theirs.get_submodule(part).weight.grad for part in parts])
        assert (mine.get_submodule(name).weight.grad - there).abs().max() < 1e-5 * there.abs().max()
