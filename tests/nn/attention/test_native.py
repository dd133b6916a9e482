"""Attention in native code: it is its twin in values and gradients, and steps aside where somebody looks on."""

import logging

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn import functional as F
from torch.utils.flop_counter import FlopCounterMode

import sublayer
from sublayer.native import library
from sublayer.nn.attention import native

ENOUGH = {"q": (2, 4, 256, 64), "k": (2, 2, 256, 64)}
"""Sizes that are worth it."""


def random(shape: tuple[int, ...], **options) -> torch.Tensor:
    """As parts hand it over: heads of one place beside each other in memory."""
    B, H, L, K = shape
    return torch.randn(B, L, H, K, **options).transpose(1, 2)


def enough(**options) -> list[torch.Tensor]:
    torch.manual_seed(0)
    return [random(ENOUGH[name], **options) for name in "qkk"]


def with_gradients(attend, qkv, grad):
    own = [x.detach().requires_grad_() for x in qkv]
    y = attend(*own)
    return y, *torch.autograd.grad(y, own, grad)


@given(
    st.integers(1, 3),
    st.sampled_from([(1, 1), (4, 4), (4, 2), (3, 1)]),
    st.integers(1, 100),
    st.integers(1, 100),
    st.sampled_from([16, 48, 64]),
    st.booleans(),
    st.sampled_from([(0, 1, 2, 3), (0, 2, 1, 3), (3, 0, 1, 2)]),
)
def test_it_is_its_twin(B, heads, L, M, K, causal, order):
    """Whatever the sizes, and wherever heads lie in memory; single precision against double."""
    torch.manual_seed(0)
    (H, G), M = heads, L if causal else M
    back = sorted(range(4), key=order.__getitem__)
    shapes = (B, H, L, K), (B, G, M, K), (B, G, M, K), (B, H, L, K)
    *qkv, grad = (torch.randn([shape[n] for n in order]).permute(back) for shape in shapes)
    found = with_gradients(lambda q, k, v: native.attend(q, k, v, causal), qkv, grad)
    double = [x.double() for x in qkv]
    expected = with_gradients(
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=causal, enable_gqa=True),
        double,
        grad.double(),
    )
    for ours, theirs in zip(found, expected, strict=True):
        torch.testing.assert_close(ours.double(), theirs, atol=1e-5, rtol=1e-5)


def test_scores_of_any_size():
    """Large ones do not overflow, and all of the weight may lie on one key."""
    q, k, v = enough()
    found = native.attend(q * 100, k * 100, v, True)
    expected = F.scaled_dot_product_attention(
        q.double() * 100, k.double() * 100, v.double(), is_causal=True, enable_gqa=True
    )
    assert (found - expected).abs().median() < 1e-5
    torch.testing.assert_close(found[:, :, 0], v.repeat_interleave(2, 1)[:, :, 0])


@pytest.mark.parametrize("which", range(3))
@pytest.mark.parametrize("value", [torch.nan, torch.inf])
def test_what_is_not_a_number_stays_so(which, value):
    qkv = enough()
    qkv[which][0, 0, 100, 5] = value
    found = native.attend(*qkv, True)
    expected = F.scaled_dot_product_attention(*qkv, is_causal=True, enable_gqa=True)
    if which == 2:  # weights of zero times what is not a number: a few queries before it may suffer, too
        found, expected = found[:, :, 100:], expected[:, :, 100:]
    assert not found.isfinite().all()
    assert torch.equal(found.isfinite(), expected.isfinite())


def test_threads_do_not_change_a_bit():
    qkv, grad = enough(), random(ENOUGH["q"])
    before, found = torch.get_num_threads(), []
    try:
        for threads in (1, 2, 3):
            torch.set_num_threads(threads)
            found.append(with_gradients(lambda q, k, v: native.attend(q, k, v, True), qkv, grad))
    finally:
        torch.set_num_threads(before)
    assert all(torch.equal(a, b) for other in found[1:] for a, b in zip(found[0], other, strict=True))


def test_it_serves_what_is_worth_it():
    assert native.serves(*enough(), dropout=0)
    assert native.serves(*enough(), dropout=0.1)
    assert not native.serves(*enough(dtype=torch.float64), dropout=0)
    assert not native.serves(*enough(dtype=torch.bfloat16), dropout=0)
    assert not native.serves(*enough(device="meta"), dropout=0)
    q, k, v = enough()
    assert not native.serves(q[..., :40], k[..., :40], v[..., :40], dropout=0)
    assert not native.serves(q[:, :, -1:], k, v, dropout=0)
    assert not native.serves(q[:, :, :32], k[:, :, :32], v[:, :, :32], dropout=0)


@pytest.mark.filterwarnings("ignore:.torch.jit:DeprecationWarning")
def test_it_steps_aside_where_somebody_looks_on():
    q, k, v = enough()
    with FlopCounterMode(display=False):
        assert not native.serves(q, k, v, dropout=0)
    seen = []
    torch.func.vmap(lambda x: seen.append(native.serves(x, x, x, 0)) or x)(q[None])
    torch.jit.trace(lambda x: seen.append(native.serves(x, x, x, 0)) or x, q, check_trace=False)
    assert seen == [False, False]

    class Own(torch.Tensor):
        pass

    assert not native.serves(q.as_subclass(Own), k, v, dropout=0)


@pytest.fixture
def model():
    torch.manual_seed(0)
    return sublayer.config("gpt2", dim=128, layout="sfs", vocab=32, **{"s.heads": 2, "s.dropout": 0.0}).build().eval()


def gradients(model, ids):
    model.zero_grad()
    logits = model(ids)[0]
    logits.logsumexp(-1).sum().backward()
    return [logits.detach(), *(p.grad for p in model.parameters())]


def test_models_use_it(model, monkeypatch):
    ids, calls = torch.randint(32, (4, 128)), []
    run = native._run
    monkeypatch.setattr(native, "_run", lambda name, *rest: calls.append(name) or run(name, *rest))
    found = gradients(model, ids)
    assert calls == ["sublayer_attend"] * 2 + ["sublayer_attend_backward"] * 2
    monkeypatch.setattr(native, "WORTH", 2**62)
    for ours, theirs in zip(found, gradients(model, ids), strict=True):
        torch.testing.assert_close(ours, theirs, atol=1e-4, rtol=1e-4)
    assert len(calls) == 4


def test_without_a_compiler_models_go_on_and_it_is_said_once(model, monkeypatch, caplog, tmp_path):
    monkeypatch.setenv("SUBLAYER_NATIVE", str(tmp_path))
    monkeypatch.setenv("CC", "no-such-compiler")
    library.load.cache_clear()
    with caplog.at_level(logging.WARNING):
        gradients(model, torch.randint(32, (4, 128)))
    library.load.cache_clear()
    (record,) = caplog.records
    assert "attention goes on without native code, more slowly: " in record.message
