"""Blocks are finished before they are seen compressed, and counted from the first real token."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import sublayer
from sublayer.nn import paths
from sublayer.nn.attention import MemoryCompressed, native, staircase
from sublayer.nn.attention.staircase import Staircase
from sublayer.nn.config import ConfigError
from sublayer.nn.model import Model
from sublayer.nn.part import Slot
from sublayer.nn.scene import Scene
from sublayer.testing import LAWS, Case, around
from sublayer.testing.laws.counts import count_flops
from sublayer.testing.surroundings import DECODER, FEEDFORWARD

SLOT = Slot(32)
BOTH = MemoryCompressed.Config(heads=4, kv_heads=2, look="both")


def text(length, batch=1, dim=32):
    return torch.randn(batch, length, dim, generator=torch.Generator().manual_seed(length), dtype=torch.float64)


def whole(length):
    return Scene(torch.arange(length)[None])


def effects(part, length):
    """For each query, on which tokens its output depends."""
    x_1LD = text(length).requires_grad_()
    y_LD = part(x_1LD, whole(length))[0][0]
    slopes = (torch.autograd.grad(y_D.sum(), x_1LD, retain_graph=True)[0] for y_D in y_LD)
    return torch.stack([slope[0].abs().amax(-1) > 0 for slope in slopes])


def test_a_query_sees_all_that_stands_before_it_through_blocks_and_its_own_block():
    part = MemoryCompressed.Config(heads=4).build(SLOT).double()
    assert torch.equal(effects(part, 11), torch.ones(11, 11).tril().bool())
    nn.init.zeros_(part.value_GZK)
    nn.init.zeros_(part.key_GZK)
    expected_LM = torch.block_diag(*[torch.ones(n, n) for n in (3, 3, 3, 2)]).tril().bool()
    assert torch.equal(effects(part, 11), expected_LM)


def test_blocks_do_not_move_with_the_length():
    part = MemoryCompressed.Config(heads=4).build(SLOT).double()
    x_1LD = text(14)
    longest = part(x_1LD, whole(14))[0]
    for length in range(1, 14):
        assert (part(x_1LD[:, :length], whole(length))[0] - longest[:, :length]).abs().max() < 1e-12


def test_keys_and_values_are_those_of_a_strided_convolution():
    part = MemoryCompressed.Config(heads=4, stride=3).build(SLOT).double()
    x_BGTK = torch.randn(2, 4, 12, 8, dtype=torch.float64)
    kernel = part.key_GZK.unflatten(1, (3, 8)).permute(0, 3, 2, 1).flatten(0, 1)
    found = F.conv1d(x_BGTK.transpose(2, 3).flatten(1, 2), kernel, stride=3, groups=4)
    made = part.compress(x_BGTK, part.key_GZK)
    assert made.shape == (2, 4, 4, 8)
    assert (made.transpose(2, 3).flatten(1, 2) - found).abs().max() < 1e-12


def test_with_a_stride_of_one_and_no_change_it_is_dense_attention():
    part = MemoryCompressed.Config(heads=4, stride=1).build(SLOT).double()
    dense = sublayer.nn.attention.MultiHead.Config(heads=4).build(SLOT).double()
    with torch.no_grad():
        for weight in (part.key_GZK, part.value_GZK):
            weight.copy_(torch.eye(8))
    dense.load_state_dict({name: x for name, x in part.state_dict().items() if "GZK" not in name})
    assert (part(text(70), whole(70))[0] - dense(text(70), whole(70))[0]).abs().max() < 1e-12


@pytest.mark.parametrize("law", ["cost = count", "gradients", "padding", "padded loss", "oracle"])
def test_looking_both_ways_it_obeys_the_laws(law):
    assert LAWS[law](Case(around(BOTH, causal=False))).holds


@pytest.mark.parametrize("part", [BOTH, MemoryCompressed.Config(heads=4)])
def test_work_is_counted_for_texts_of_several_chunks(part):
    config = around(part, causal=not part.both_ways)
    with torch.device("meta"):
        model = config.build().eval()
    for length, memory in ((150, 0),) if part.both_ways else ((150, 0), (70, 64), (64, 65), (1, 200)):
        work = config.cost(length, memory).flops
        expected = work.embedding + work.stack + work.head
        assert abs(count_flops(model, length, memory) - expected) < 0.002 * expected


def test_looking_both_ways_everyone_sees_everyone_through_blocks():
    part = BOTH.build(SLOT).double()
    assert effects(part, 8).all()
    cost = [BOTH.flops(SLOT, sublayer.nn.part.Work(length)) for length in (300, 600)]
    assert part(text(8), whole(8))[1] is None
    assert BOTH.state_size(SLOT, sublayer.nn.part.Work(8)) == 0
    assert cost[1] < 4 * cost[0]


@pytest.mark.parametrize("cuts", [(1,) * 13, (5, 1, 6, 1)])
def test_rows_with_other_lengths_that_go_on_are_as_alone(cuts):
    """Left and inner padding differ by row, and so do the blocks that are finished."""
    part = MemoryCompressed.Config(heads=4, kv_heads=2).build(SLOT).double()
    valid_BL = torch.rand(3, 13, generator=torch.Generator().manual_seed(4)) < torch.tensor([[1.1], [0.6], [0.3]])
    x_BLD, state, found = text(13, 3), None, []
    i_BL = (valid_BL.cumsum(1) - 1).clamp(min=0)
    for end, count in zip(torch.tensor(cuts).cumsum(0).tolist(), cuts, strict=True):
        start = end - count
        past = (i_BL[:, :start], valid_BL[:, :start]) if start else (None, None)
        scene = Scene(i_BL[:, start:end], start, valid_BL[:, start:end], *past)
        with torch.no_grad():
            y_BLD, state = part(x_BLD[:, start:end], scene, state)
        found.append(y_BLD)
    for y_LD, x_LD, valid_L in zip(torch.cat(found, dim=1), x_BLD, valid_BL, strict=True):
        alone = part(x_LD[None, valid_L], whole(int(valid_L.sum())))[0]
        assert (y_LD[valid_L] - alone[0]).abs().max() < 1e-12


def test_a_row_goes_on_alone_after_a_longer_one_is_dropped():
    part = MemoryCompressed.Config(heads=4).build(SLOT).double()
    valid_BL = torch.arange(10) >= torch.tensor([[0], [6]])
    x_BLD, i_BL = text(12, 2), (valid_BL.cumsum(1) - 1).clamp(min=0)
    with torch.no_grad():
        state = part(x_BLD[:, :10], Scene(i_BL, 0, valid_BL))[1].select(torch.tensor([1]))
        scene = Scene(torch.tensor([[4, 5]]), 10, torch.ones(1, 2).bool(), i_BL[1:], valid_BL[1:])
        y_1LD = part(x_BLD[1:, 10:], scene, state)[0]
        alone = part(x_BLD[1:, 6:], whole(6))[0]
    assert (y_1LD - alone[:, 4:]).abs().max() < 1e-12


@pytest.mark.parametrize(
    ("length", "begun", "before", "stride"), [(130, 0, 0, 3), (70, 2, 5, 3), (1, 3, 4, 5), (9, 0, 2, 1)]
)
def test_chunks_and_bands_hold_what_queries_see(length, begun, before, stride):
    tokens = begun + length
    stairs = Staircase(length, tokens, before + (tokens - 1) // stride, stride)
    expected_LM = torch.zeros(length, stairs.blocks + tokens, dtype=torch.bool)
    for i in range(length):
        w = begun + i
        expected_LM[i, : before + w // stride] = True
        expected_LM[i, stairs.blocks + w - w % stride : stairs.blocks + w + 1] = True
    along = sum(band.count(length, stairs.blocks + tokens) for band in staircase.bands(stairs))
    assert torch.equal(along, expected_LM.to(along.dtype))
    seen_LM = torch.zeros_like(expected_LM)
    for queries, blocks, own in stairs.chunks:
        mask = stairs.mask(queries, blocks, own)
        seen_LM[queries, :blocks] = mask[:, :blocks]
        seen_LM[queries, stairs.blocks + own.start : stairs.blocks + own.stop] = mask[:, blocks:]
    assert torch.equal(seen_LM, expected_LM)


def test_c_and_pytorch_agree_in_values_and_gradients():
    part = MemoryCompressed.Config(heads=2, kv_heads=1).build(Slot(64))
    x_BLD = text(400, 2, 64).float()
    found = {}
    for slow in (False, True):
        assert paths.find(staircase.JOB, *[torch.zeros(2, 2, 400, 32)] * 3, Staircase(3, 3, 0, 3), None, 0.0)
        with pytest.MonkeyPatch.context() as patch:
            if slow:
                patch.setattr(native, "serves", lambda *call: False)
            valid_BL = torch.arange(400) >= torch.tensor([[0], [11]])
            part.zero_grad()
            y_BLD = part(x_BLD, Scene((valid_BL.cumsum(1) - 1).clamp(min=0), valid_BL=valid_BL))[0]
            y_BLD[valid_BL].square().sum().backward()
            found[slow] = [y_BLD[valid_BL].detach(), *(weight.grad.clone() for weight in part.parameters())]
    for fast, plain in zip(*found.values(), strict=True):
        assert (fast - plain).abs().max() < 1e-5 * plain.abs().max().clamp(min=1)


def test_layers_alternate_as_in_the_paper():
    local = {"kind": "multihead", "heads": 4, "pattern": {"kind": "block_local", "size": 8, "before": 0}}
    compressed = {"kind": "memory_compressed", "heads": 4}
    alphabet = {"l": local, "c": compressed, "f": FEEDFORWARD}
    stack = {"kind": "plain", "layout": "lcl", "alphabet": alphabet}
    case = Case(Model.Config.parse({**DECODER, "stack": stack}))
    assert LAWS["causality"](case).holds
    assert LAWS["segmentation"](case).holds


def test_both_ways_in_a_decoder_is_refused():
    with pytest.raises(ConfigError, match=r"look=both looks both ways, .* reads left to right; use look=back"):
        around(BOTH, causal=True)


def test_a_position_inside_attention_is_refused():
    with pytest.raises(ConfigError, match="memory_compressed does not use position=rotary"):
        around(MemoryCompressed.Config(heads=4)).but(position="rotary")
