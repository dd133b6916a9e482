"""What is peculiar to norms, gates and ways to add."""

import pytest
import torch

import sublayer
from sublayer.nn.feedforward import Dense
from sublayer.nn.part import Slot
from sublayer.nn.residual import Add, GruGate, LayerDrop, PostNorm, PreNorm, ReZero, RMSNorm
from sublayer.nn.scene import Scene
from sublayer.testing import small

SCENE = Scene(torch.arange(5)[None])


def sublayer_of(config, dim=8):
    torch.manual_seed(0)
    slot = Slot(dim)
    return config.build(Dense.Config(inner=16).build(slot), slot)


@pytest.mark.parametrize("kind", [kind for kind in Add.Config.registry if kind != "sum"])
def test_gates_start_nearer_to_the_identity_as_their_bias_grows(kind):
    x, y = torch.randn(1, 5, 8), torch.randn(1, 5, 8).abs()
    gaps = []
    for bias in (0.0, 3.0, 12.0):
        gate = Add.Config.parse({"kind": kind, "bias": bias}).build(8)
        with torch.no_grad():
            gaps.append(float((gate(x, y if kind != "input_gate" else 0 * y) - x).abs().max()))
    assert gaps[0] > gaps[1] > gaps[2]
    assert gaps[2] < 1e-3


def test_gru_gate_is_the_papers():
    gate = GruGate.Config(bias=1.5).build(4)
    for weight in gate.parameters():
        torch.nn.init.normal_(weight)
    x, y = torch.randn(1, 1, 4), torch.randn(1, 1, 4).abs()
    w = {name: getattr(gate, name).weight for name in gate.matrices}
    for_x, for_y = x[0, 0], y[0, 0]
    r = torch.sigmoid(w["w_r"] @ for_y + w["u_r"] @ for_x)
    z = torch.sigmoid(w["w_z"] @ for_y + w["u_z"] @ for_x - gate.bias)
    new = torch.tanh(w["w_g"] @ for_y + w["u_g"] @ (r * for_x))
    torch.testing.assert_close(gate(x, y)[0, 0], (1 - z) * for_x + z * new)


def test_rezero_starts_as_the_identity():
    x = torch.randn(1, 5, 8)
    assert torch.equal(sublayer_of(ReZero.Config(norm=RMSNorm.Config()))(x, SCENE)[0], x)


def test_pre_and_post_norm_are_what_they_say():
    x = torch.randn(1, 5, 8)
    pre, post = sublayer_of(PreNorm.Config()), sublayer_of(PostNorm.Config())
    torch.testing.assert_close(pre(x, SCENE)[0], x + pre.part(pre.norm(x), SCENE)[0])
    torch.testing.assert_close(post(x, SCENE)[0], post.norm(x + post.part(x, SCENE)[0]))


def test_rms_norm_is_what_it_says():
    norm, x = RMSNorm.Config(eps=1e-6).build(8), torch.randn(3, 8)
    torch.testing.assert_close(norm(x), x / (x.pow(2).mean(-1, keepdim=True) + 1e-6).sqrt())


def test_layer_drop_leaves_out_in_training_only_and_at_its_rate():
    residual = sublayer_of(LayerDrop.Config(rate=0.3))
    x = torch.randn(1, 5, 8)
    left_out = sum(torch.equal(residual(x, SCENE)[0], x) for _ in range(2000))
    assert 500 < left_out < 700  # six standard deviations around 600 are ±123
    residual.eval()
    assert not torch.equal(residual(x, SCENE)[0], x)


@pytest.mark.parametrize("paper", ["gpt2", "transformer-xl-base"])
def test_a_sublayer_left_out_still_remembers(paper):
    config = small(sublayer.config(paper)).but(residual={"kind": "layer_drop", "rate": 1.0})
    torch.manual_seed(0)
    model = config.build()
    ids = torch.randint(61, (2, 4))
    with torch.no_grad():
        _, state = model(ids)  # training mode: every sublayer is left out, and still keeps what it saw
        assert [len(kept) for kept in state.parts if kept is not None] == [4, 4]
        model.eval()
        assert model(ids, state)[0].isfinite().all()
