"""ETC: two inputs, two softmaxes, labels by relation, and a loss on hidden segments."""

import pytest
import torch

import sublayer
from sublayer.nn.attention import EtcAttention
from sublayer.nn.config import ConfigError
from sublayer.nn.model import Model
from sublayer.nn.part import Slot, Work
from sublayer.nn.paths import by_slow_twins
from sublayer.nn.scene import Scene
from sublayer.nn.stack import EtcStack
from sublayer.testing import LAWS, Case, around
from sublayer.testing.surroundings import ENCODER, FEEDFORWARD

SLOT = Slot(32)


def attention(**changes):
    return EtcAttention.Config(**{"heads": 4, "radius": 2, "clip": 1, **changes})


def encoder(attention, **changes):
    alphabet = {"s": attention.dump(), "f": FEEDFORWARD}
    stack = {"kind": "etc", "layout": "(sf)x2", "alphabet": alphabet, "segment": 4, **changes}
    return Model.Config.parse({**ENCODER, "stack": stack})


def in_front(length, globals_, segment, valid_BL=None):
    """The scene of a text after its global tokens."""
    of_BL = torch.arange(length)[None] // segment
    summary_BL = torch.cat([torch.full((1, globals_), -1), of_BL], dim=1)
    i_BL = torch.arange(globals_ + length)[None]
    return Scene(i_BL, valid_BL=valid_BL, globals=globals_, summary_BL=summary_BL if globals_ else None)


def drawn(part):
    """Double precision, weights large."""
    torch.manual_seed(0)
    with torch.no_grad():
        for weight in part.parameters():
            weight.normal_(std=0.3)
    return part.double().eval()


def effects(part, scene):
    x_1LD = torch.randn(1, scene.length, 32, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    x_1LD.requires_grad_()
    y_LD = part(x_1LD, scene)[0][0]
    slopes = (torch.autograd.grad(y_D.sum(), x_1LD, retain_graph=True)[0] for y_D in y_LD)
    return torch.stack([slope[0].abs().amax(-1) > 0 for slope in slopes])


@pytest.mark.parametrize("g2l", ["all", "own"])
def test_four_masks(g2l):
    expected_LM = torch.ones(3 + 10, 3 + 10, dtype=torch.bool)
    i_N = torch.arange(10)
    expected_LM[3:, 3:] = (i_N[:, None] - i_N).abs() <= 2
    if g2l == "own":
        expected_LM[:3, 3:] = torch.arange(3)[:, None] == i_N // 4
    assert torch.equal(effects(drawn(attention(g2l=g2l).build(SLOT)), in_front(10, 3, 4)), expected_LM)


@pytest.mark.parametrize("projections", [1, 2, 4])
@pytest.mark.parametrize(("globals_", "g2l"), [(0, "all"), (3, "all"), (3, "own")])
def test_it_equals_its_twin(projections, globals_, g2l):
    """With tokens that the stack put in front and with those of the text; with padding, and in gradients."""
    part = drawn(attention(projections=projections, kv_heads=2, radius=5, clip=3, globals=2, g2l=g2l).build(SLOT))
    L = globals_ + 37
    valid_BL = (torch.arange(L) < globals_) | (torch.arange(L) >= torch.tensor([[0], [globals_ + 9]]))
    scene = in_front(37, globals_, 13, valid_BL)
    x_BLD = torch.randn(2, L, 32, dtype=torch.float64, requires_grad=True)
    found = []
    for slow in (False, True):
        with by_slow_twins() if slow else torch.enable_grad():
            y_BLD = part(x_BLD, scene)[0][valid_BL]
        found.append([y_BLD, *torch.autograd.grad(y_BLD.square().sum(), [x_BLD, *part.parameters()])])
    for fast, plain in zip(*found, strict=True):
        assert (fast - plain).abs().max() < 1e-10 * max(1, plain.abs().max())


def test_there_are_two_softmaxes_not_four():
    """Values of one: each output is then the sum of its weights."""
    part = attention().build(SLOT).double()
    with torch.no_grad():
        part.key_value[0].weight[32:] = 0
        part.key_value[0].bias[32:] = 1
        torch.nn.init.eye_(part.outputs[0].weight)
    y_1LD = part(torch.randn(1, 13, 32, dtype=torch.float64), in_front(10, 3, 4))[0]
    assert (y_1LD - 1).abs().max() < 1e-12


def test_labels_mark_relations():
    """With nothing but labels in its scores, a token's weights follow them."""
    part = attention(radius=4, clip=2, heads=1, bias=False).build(Slot(8)).double()
    clip, labels = 2, part.config.labels
    with torch.no_grad():
        part.query[0].weight.copy_(torch.eye(8))
        part.key_value[0].weight.zero_()
        part.key_value[0].weight[8:].copy_(torch.eye(8))
        torch.nn.init.eye_(part.outputs[0].weight)
        part.label_HRK.zero_()
        part.label_HRK[0, 2 * clip + 1] = 100.0  # from a long token to its own global one
        part.label_HRK[0, labels] = 100.0  # from a global token to those `clip` or more before it
    x_1LD = torch.rand(1, 4 + 12, 8, dtype=torch.float64) + 1
    y_LD = part(x_1LD, in_front(12, 4, 3))[0][0]
    own_N = torch.arange(12) // 3
    assert (y_LD[4:] - x_1LD[0, own_N]).abs().max() < 1e-10
    assert (y_LD[2] - x_1LD[0, 0]).abs().max() < 1e-10
    assert (y_LD[3] - x_1LD[0, :2].mean(0)).abs().max() < 1e-10


@pytest.mark.parametrize("law", ["cost = count", "gradients", "pattern", "padding", "padded loss", "oracle"])
def test_the_laws_hold_with_four_projections_and_global_tokens_of_the_text(law):
    case = Case(around(attention(projections=4, kv_heads=2, globals=2), causal=False))
    assert LAWS[law](case).holds


@pytest.mark.parametrize("law", ["cost = count", "padding", "padded loss", "oracle"])
def test_the_laws_hold_with_two_projections_and_own_segments(law):
    assert LAWS[law](Case(encoder(attention(projections=2, kv_heads=2, g2l="own")))).holds


def test_work_grows_linearly():
    config = attention(radius=8)
    cost = {length: config.flops(SLOT, Work(length + 4, globals=4)) for length in (1000, 2000, 4000)}
    assert cost[4000] < 2.01 * cost[2000] < 4.03 * cost[1000]


def test_the_stack_puts_one_global_token_before_each_segment():
    model = encoder(attention()).build()
    seen = []
    model.stack.sublayers[0].part.register_forward_pre_hook(lambda part, given: seen.append(given[1]))
    ids = torch.randint(0, 61, (2, 10))
    valid_BL = torch.arange(10) >= torch.tensor([[0], [5]])
    h_BLD = model(ids, None, valid_BL)[0]
    assert h_BLD.shape[:2] == ids.shape
    assert seen[0].globals == 3
    assert seen[0].summary_BL.tolist() == [
        [-1, -1, -1, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2],
        [-1, -1, -1, -1, -1, -1, -1, -1, 0, 0, 0, 0, 1],
    ]
    assert seen[0].valid_BL[:, :3].tolist() == [[True, True, True], [True, True, False]]


def test_the_loss_on_hidden_segments_is_named_and_only_in_training():
    losses = {}
    model = encoder(attention(), cpc=0.2, hidden=1.0).build()
    model(torch.randint(0, 61, (2, 10)), losses=losses)
    assert losses.keys() == {"cpc"}
    assert 0 < losses["cpc"] / 0.2 < 2 * torch.tensor(6.0).log()  # about as if one of six were guessed
    losses.clear()
    model.eval()(torch.randint(0, 61, (2, 10)), losses=losses)
    assert not losses


def test_a_hidden_segment_is_seen_by_nobody_and_read_alone():
    """The global token of a hidden segment does not depend on it; the target depends on nothing else."""
    config = encoder(attention(radius=6), cpc=1.0, hidden=1.0)
    stack = config.stack.build(config.dim)
    calls = []
    whole = EtcStack._read

    def read(self, x_BLD, segments, scene, valid_BL):
        calls.append((x_BLD, valid_BL))
        return whole(self, x_BLD, segments, scene, valid_BL)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(EtcStack, "_read", read)
        x_BLD = torch.randn(2, 10, 32)
        valid_BL = torch.arange(10) >= torch.tensor([[0], [5]])
        stack(x_BLD, Scene(torch.arange(10)[None].expand(2, -1), valid_BL=valid_BL))
    (_, in_context_BL), (alone_SnD, alone_Sn) = calls
    assert not in_context_BL.any()
    assert alone_Sn.tolist() == [
        [True] * 4,
        [True] * 4,
        [True, True, False, False],
        [True] * 4,
        [True, False, False, False],
    ]
    assert torch.equal(alone_SnD[1], x_BLD[0, 4:8])
    assert torch.equal(alone_SnD[4, 0], x_BLD[1, 9])


def test_a_batch_with_one_hidden_segment_has_a_loss_of_zero():
    losses = {}
    encoder(attention(), cpc=0.2, hidden=1.0).build()(torch.randint(0, 61, (1, 3)), losses=losses)
    assert losses["cpc"] == 0


def test_training_on_hidden_segments_lowers_their_loss():
    """All segments of a text repeat one token: the context tells which."""
    torch.manual_seed(0)
    model = encoder(attention(radius=3), cpc=1.0, hidden=0.3, layout="sf").build().train()
    optimizer, seen = torch.optim.Adam(model.parameters(), 1e-2), []
    for _ in range(30):
        ids, losses = torch.randint(0, 61, (6, 1)).expand(-1, 16), {}
        model(ids, losses=losses)
        optimizer.zero_grad()
        losses["cpc"].backward()
        optimizer.step()
        seen.append(losses["cpc"].item())
    assert sum(seen[-8:]) < 0.8 * sum(seen[:8])


def test_another_attention_in_its_stack_is_refused():
    with pytest.raises(
        ConfigError, match=r"alphabet\.s: a stack of kind etc .* multihead does not know .*; use the part"
    ):
        Model.Config.parse(ENCODER).but(stack={**ENCODER["stack"], "kind": "etc"})


def test_looking_back_is_refused():
    with pytest.raises(ConfigError, match="etc looks both ways, but this stack reads left to right; use multihead"):
        sublayer.config("gpt2").but({"s": EtcAttention.Config()})
