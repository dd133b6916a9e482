"""Window attention by blocks equals the masked rectangle, in values and gradients, and stays linear."""

from contextlib import nullcontext

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from sublayer.nn import paths
from sublayer.nn.attention import Full, MultiHead, Window
from sublayer.nn.memory import Cache, NoMemory
from sublayer.nn.part import Slot, Work
from sublayer.nn.position import Rotary
from sublayer.nn.scene import Scene


def windowed(size, look, kv_heads=None):
    memory = Cache.Config() if look == "back" else NoMemory.Config()
    config = MultiHead.Config(heads=4, kv_heads=kv_heads, pattern=Window.Config(size=size, look=look), memory=memory)
    torch.manual_seed(0)
    part = config.build(Slot(16, Rotary.Config())).double()
    for weight in part.parameters():
        torch.nn.init.normal_(weight, std=0.5)
    return part


@pytest.mark.parametrize("look", ["back", "both"])
@pytest.mark.parametrize(("size", "length"), [(1, 7), (3, 13), (4, 17), (5, 31), (4, 40)])
@pytest.mark.parametrize("kv_heads", [None, 2])
def test_equal_to_the_rectangle(look, size, length, kv_heads):
    part = windowed(size, look, kv_heads)
    x_BLD = torch.randn(2, length, 16, dtype=torch.float64)
    results = []
    for slow in (nullcontext, paths.by_slow_twins):
        with slow():
            y_BLD, _ = part(x_BLD, Scene(torch.arange(length)[None]))
        results.append([y_BLD, *torch.autograd.grad(y_BLD.pow(2).sum(), list(part.parameters()))])
    for here, there in zip(*results, strict=True):
        torch.testing.assert_close(here, there)


def test_equal_to_the_rectangle_with_a_cache():
    part = windowed(3, "back")
    x_BLD = torch.randn(2, 31, 16, dtype=torch.float64)

    def read():
        with torch.no_grad():
            first, state = part(x_BLD[:, :2], Scene(torch.arange(2)[None]))
            second, state = part(x_BLD[:, 2:20], Scene(torch.arange(2, 20)[None], start=2), state)
            third, _ = part(x_BLD[:, 20:], Scene(torch.arange(20, 31)[None], start=20), state)
        return torch.cat([first, second, third], dim=1)

    blocks = read()
    with paths.by_slow_twins():
        torch.testing.assert_close(blocks, read())


@pytest.mark.parametrize("look", ["back", "both"])
def test_work_is_linear_in_length_and_counted_right(look):
    part = windowed(8, look).to("meta")
    slot = Slot(16, Rotary.Config())
    for length in (100, 200, 400):
        with FlopCounterMode(display=False) as counter, torch.no_grad():
            x_BLD = torch.empty(1, length, 16, device="meta", dtype=torch.float64)
            part(x_BLD, Scene(torch.arange(length, device="meta")[None]))
        assert counter.get_total_flops() == part.config.flops(slot, Work(length))
    assert part.config.flops(slot, Work(6400)) < 2.01 * part.config.flops(slot, Work(3200))


def test_a_cache_keeps_no_more_than_the_window_needs():
    part = windowed(4, "back")
    state, start = None, 0
    with torch.no_grad():
        for _ in range(200):
            x_BLD = torch.randn(1, 1, 16, dtype=torch.float64)
            _, state = part(x_BLD, Scene(torch.tensor([[start]]), start=start), state)
            start += 1
    assert state.k.buffer.shape[2] <= 16


def test_full_attention_has_no_blocks():
    assert Full.Config().pairs(1000, 0) == 1000 * 1000
