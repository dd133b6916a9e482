"""The chunked loss is the plain one: values, gradients, weights, smoothing, targets left out."""

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from sublayer.nn.embedding import LinearHead, TokenEmbedding, cross_entropy

N, D, V = 137, 6, 29


@pytest.fixture
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything is large, in chunks of 64 tokens: two whole ones and a rest."""
    monkeypatch.setattr(cross_entropy, "LARGE", 1)


def inputs(bias: bool, weighted: bool) -> tuple[Tensor, Tensor, Tensor | None, Tensor, Tensor | None]:
    torch.manual_seed(0)
    h_ND = torch.randn(N, D, dtype=torch.float64, requires_grad=True)
    weight_VD = torch.randn(V, D, dtype=torch.float64, requires_grad=True)
    bias_V = torch.randn(V, dtype=torch.float64, requires_grad=True) if bias else None
    target_N = torch.randint(V, (N,))
    target_N[::5] = -100
    return h_ND, weight_VD, bias_V, target_N, torch.rand(N, dtype=torch.float64) if weighted else None


def plain(h_ND, weight_VD, bias_V, target_N, weights_N, smoothing, reduction) -> Tensor:
    loss_N = F.cross_entropy(F.linear(h_ND, weight_VD, bias_V), target_N, reduction="none", label_smoothing=smoothing)
    weights_N = torch.ones(N, dtype=torch.float64) if weights_N is None else weights_N
    total = (loss_N * weights_N).sum()
    return total if reduction == "sum" else total / weights_N[target_N != -100].sum()


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("reduction", ["mean", "sum"])
@pytest.mark.parametrize("large", [1, 2**24])
def test_equals_plain(monkeypatch, bias: bool, weighted: bool, smoothing: float, reduction, large: int):
    monkeypatch.setattr(cross_entropy, "LARGE", large)
    given = inputs(bias, weighted)
    leaves = [x for x in given[:3] if x is not None]
    here = cross_entropy.of_linear(*given, smoothing, reduction)
    there = plain(*given, smoothing, reduction)
    torch.testing.assert_close(here, there, rtol=1e-12, atol=1e-12)
    ours, theirs = torch.autograd.grad(3 * here, leaves), torch.autograd.grad(3 * there, leaves)
    torch.testing.assert_close(ours, theirs, rtol=1e-11, atol=1e-12)
    with torch.no_grad():
        torch.testing.assert_close(cross_entropy.of_linear(*given, smoothing, reduction), there, rtol=1e-12, atol=1e-12)


@pytest.mark.usefixtures("small_chunks")
@pytest.mark.parametrize("smoothing", [0.0, 0.2])
def test_gradcheck(smoothing: float):
    h_ND, weight_VD, bias_V, target_N, weights_N = inputs(bias=True, weighted=True)
    assert torch.autograd.gradcheck(
        lambda h, weight, bias: cross_entropy.of_linear(h, weight, bias, target_N, weights_N, smoothing),
        (h_ND, weight_VD, bias_V),
        fast_mode=True,
    )


@pytest.mark.usefixtures("small_chunks")
def test_only_what_asks_gets_a_gradient():
    h_ND, weight_VD, bias_V, target_N, _ = inputs(bias=True, weighted=False)
    cross_entropy.of_linear(h_ND.detach(), weight_VD, None, target_N).backward()
    assert weight_VD.grad is not None
    assert h_ND.grad is None
    cross_entropy.of_linear(h_ND, weight_VD.detach(), bias_V, target_N).backward()
    assert h_ND.grad is not None
    assert bias_V.grad is not None


@pytest.mark.usefixtures("small_chunks")
def test_scores_far_from_zero_stay_finite():
    h_ND, weight_VD, _, target_N, _ = inputs(bias=False, weighted=False)
    given = (h_ND * 1e4, weight_VD, None, target_N)
    torch.testing.assert_close(cross_entropy.of_linear(*given), plain(*given, None, 0.0, "mean"))


@pytest.mark.parametrize("autocast", [False, True])
def test_half_precision_keeps_the_loss_and_gradients_of_plain(monkeypatch, autocast: bool):
    h_ND, weight_VD, bias_V, target_N, _ = inputs(bias=True, weighted=False)
    kind = torch.float32 if autocast else torch.bfloat16
    leaves = [x.detach().to(kind).requires_grad_() for x in (h_ND, weight_VD, bias_V)]
    found = []
    for large in (1, 2**24):
        monkeypatch.setattr(cross_entropy, "LARGE", large)
        with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
            loss = cross_entropy.of_linear(*leaves, target_N)
        found.append([loss.float(), *torch.autograd.grad(loss, leaves)])
    assert found[0][0].dtype == torch.float32
    torch.testing.assert_close(found[0], found[1], rtol=2e-2, atol=2e-3)


@pytest.mark.parametrize("large", [1, 2**24])
@pytest.mark.parametrize("bad", [V, -1])
def test_a_target_outside_the_classes_is_named(monkeypatch, large: int, bad: int):
    monkeypatch.setattr(cross_entropy, "LARGE", large)
    head = LinearHead.Config().build(V, D, TokenEmbedding.Config().build(V, D))
    target = torch.full((2, 70), bad)
    target[0] = -100
    with pytest.raises(ValueError, match=f"target: {bad} is outside the {V} classes .*-100"):
        head.loss(torch.randn(2, 70, D), target)
