"""Each proxy against its definition, spelled out slowly on a model of a few weights."""

import math
from typing import Any

import pytest
import torch
from torch import nn
from torch.func import functional_call

import sublayer
from sublayer.data import Batch
from sublayer.nas import proxies
from sublayer.nas.proxies.loss import matrices
from sublayer.testing.small import small

TINY = {"dim": 4, "layout": "(sf)", "s.heads": 2, "f.inner": 3, "f.activation": "gelu", "vocab": 7}
LEARNED = ("grad_norm", "snip", "grasp", "fisher", "synflow", "jacob_cov", "relu_log_det", "short_training")


def batches(rows=3, length=5, vocab=7, count=1):
    generator = torch.Generator().manual_seed(1)
    ids = torch.randint(vocab, (count, rows, length + 1), generator=generator)
    return [Batch(one[:, :-1], one[:, 1:]) for one in ids]


def tiny(name="gpt2", **more):
    return sublayer.config(name, {**TINY, **{key.replace("__", "."): value for key, value in more.items()}})


def lively(config) -> Any:
    """In float64 and eval mode, with weights large enough that second derivatives show."""
    torch.manual_seed(3)
    model = config.build().double().eval()
    for weight in model.parameters():
        nn.init.normal_(weight, std=0.5)
    return model


class Loss(nn.Module):
    """By the slow way: log-probabilities of all words."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, batch):
        log_probs = self.model.head.log_probs(self.model(batch.inputs_BL)[0])
        return -log_probs.gather(-1, batch.targets_BL[..., None]).mean()


def flat_loss(model, batch):
    """The loss as a function of one vector that holds all matrices, and that vector."""
    weights = matrices(model)
    sizes = [weight.numel() for weight in weights.values()]

    def loss(theta):
        pieces = zip(weights.items(), theta.split(sizes), strict=True)
        changed = {f"model.{name}": piece.view_as(weight) for (name, weight), piece in pieces}
        return functional_call(Loss(model), changed, (batch,))

    return loss, torch.cat([weight.detach().flatten() for weight in weights.values()])


def slope(function, theta, step=1e-5):
    """∂ function/∂θ by differences, one weight after another."""
    grads = torch.empty_like(theta)
    for n in range(len(theta)):
        moved = torch.zeros_like(theta)
        moved[n] = step
        grads[n] = (function(theta + moved) - function(theta - moved)) / (2 * step)
    return grads


def test_what_is_scored_are_the_matrices_of_the_sublayers():
    for name, found in (("gpt2", 4), ("transformer-xl", 5), ("llama", 4)):
        model = small(sublayer.config(name)).but(layout="(sf)").build()
        assert len(matrices(model)) == found
        assert all(weight.dim() == 2 and name.startswith("stack.sub") for name, weight in matrices(model).items())


@pytest.mark.parametrize("config", [tiny(), tiny("llama", f__activation="swish", s__kv_heads=1)])
def test_first_gradient(config):
    model, (batch,) = lively(config), batches()
    with torch.no_grad():
        loss, theta = flat_loss(model, batch)
        grads = slope(loss, theta)
    assert proxies.find("snip").of(model, batch) == pytest.approx(float((theta * grads).abs().sum()), rel=1e-6)
    sizes = [weight.numel() for weight in matrices(model).values()]
    norms = sum(float(grad.norm()) for grad in grads.split(sizes))
    assert proxies.find("grad_norm").of(model, batch) == pytest.approx(norms, rel=1e-6)


@pytest.mark.parametrize("position", ["learned", "relative_xl", "rotary"])
def test_grasp_by_the_whole_hessian(position):
    """−θᵀ H g, with H by differences of gradients that themselves are checked above."""
    model, (batch,) = lively(tiny(position=position)), batches()
    loss, theta = flat_loss(model, batch)

    def gradient(theta):
        theta = theta.clone().requires_grad_()
        return torch.autograd.grad(loss(theta), theta)[0]

    g, steps = gradient(theta), 1e-5 * torch.eye(len(theta)).double()
    hessian = torch.stack([(gradient(theta + step) - gradient(theta - step)) / 2e-5 for step in steps])
    expected = -float(theta @ hessian @ g)
    assert abs(expected) > 1e-3
    assert proxies.find("grasp").of(model, batch) == pytest.approx(expected, rel=1e-4)


def test_grasp_where_training_would_go_fused_and_native():
    """Rows long enough for native attention, and words enough for the fused loss, in fp32."""
    config = sublayer.config("gpt2", {"dim": 32, "layout": "(sf)", "s.heads": 2, "f.inner": 8, "f.activation": "relu"})
    config = config.but(vocab=20_000)
    (batch,) = batches(rows=1, length=850, vocab=20_000)
    assert math.isfinite(proxies.score("grasp", config, batch))


def test_fisher_channel_by_channel():
    """½ of the mean over rows of (Σ_l a ∂L_n/∂a)², each row's loss by itself, each channel scaled by hand."""
    model, (batch,) = lively(tiny(f__activation="relu")), batches()
    maps = [module for module in model.stack.modules() if isinstance(module, nn.Linear)]
    step, total = 1e-6, 0.0
    for module in maps:
        for channel in range(module.out_features):
            for row in range(len(batch.inputs_BL)):
                alone = Batch(batch.inputs_BL[row : row + 1], batch.targets_BL[row : row + 1])

                def louder(module, given, a, channel=channel, by=step):
                    return a * (1 + by * nn.functional.one_hot(torch.tensor(channel), a.shape[-1]).double())

                with torch.no_grad():
                    low = Loss(model)(alone)
                    hook = module.register_forward_hook(louder)
                    high = Loss(model)(alone)
                    hook.remove()
                total += float((high - low) / step) ** 2 / (2 * len(batch.inputs_BL))
    assert proxies.find("fisher").of(model, batch) == pytest.approx(total, rel=1e-3)


def test_synflow_through_feed_forwards_by_hand():
    """R = 1ᵀ(1 + |B||A|)…1, and Σ θ ∂R/∂θ by differences."""
    model, (batch,) = lively(tiny(layout="(f)x2", f__activation="relu", residual__kind="pre_norm")), batches()
    gains = [sublayer.norm.weight.detach().abs() for sublayer in model.stack.sublayers]
    parts = [sublayer.part for sublayer in model.stack.sublayers]
    sizes = [weight.shape for part in parts for weight in (part.enter.weight, part.output.weight)]

    def flow(theta):
        pieces = [piece.view(shape) for piece, shape in zip(theta.split([a * b for a, b in sizes]), sizes, strict=True)]
        x_D = torch.ones(4).double()
        for n, part in enumerate(parts):
            h_F = pieces[2 * n] @ (x_D * gains[n]) + part.enter.bias.abs()
            x_D = x_D + pieces[2 * n + 1] @ h_F + part.output.bias.abs()
        return (x_D * model.stack.final_norm.weight.abs()).sum() * batch.inputs_BL.shape[1]

    theta = torch.cat([w.detach().abs().flatten() for part in parts for w in (part.enter.weight, part.output.weight)])
    with torch.no_grad():
        expected = math.log(float((theta * slope(flow, theta)).sum()))
    assert proxies.find("synflow").of(model, batch) == pytest.approx(expected, rel=1e-8)


def test_synflow_sees_no_data_no_sign_and_does_not_overflow():
    model = lively(tiny())
    one, other = batches(count=2)
    score = proxies.find("synflow").of
    assert score(model, one) == pytest.approx(score(model, other))
    there = score(model, one)
    with torch.no_grad():
        for weight in matrices(model).values():
            weight.neg_()
    assert score(model, one) == pytest.approx(there)
    deep = sublayer.config("gpt2", {"dim": 16, "layout": "(sf)x40", "s.heads": 4, "f.inner": 16, "vocab": 7})
    loud = lively(deep)
    with torch.no_grad():
        for weight in matrices(loud).values():
            weight.mul_(4)
    assert 355 < score(loud, one) < 709  # the square of what flows would not be a number


def test_jacobian_covariance_row_by_row():
    """Each row's own Jacobian of the summed scores, by differences on what enters the stack."""
    model, (batch,) = lively(tiny()), batches(rows=3, length=2)
    rows = []
    for ids_L in batch.inputs_BL:
        entered = []
        hook = model.stack.register_forward_pre_hook(lambda stack, given, entered=entered: entered.append(given[0]))
        model(ids_L[None])
        hook.remove()

        def scores(x):
            def enter(stack, given):
                return x.view_as(given[0]), *given[1:]

            hook = model.stack.register_forward_pre_hook(enter)
            total = model.head(model(batch.inputs_BL[:1])[0]).sum()
            hook.remove()
            return total

        with torch.no_grad():
            rows.append(slope(scores, entered[0].detach().flatten()))
    v = torch.linalg.eigvalsh(torch.corrcoef(torch.stack(rows))) + 1e-5
    expected = -float((v.log() + 1 / v).sum())
    assert proxies.find("jacob_cov").of(model, batch) == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize("activation", ["relu", "gelu_tanh"])
def test_relu_log_det_by_counting(activation):
    """K_ij = N − the Hamming distance of which units are active."""
    model, (batch,) = lively(tiny(layout="(sf)x2", f__activation=activation)), batches(rows=4)
    codes: list[Any] = [[] for _ in batch.inputs_BL]
    hooks = [
        one.part.enter.register_forward_hook(
            lambda module, given, h: (
                [code.append((row > 0).flatten()) for code, row in zip(codes, h, strict=True)] and None
            )
        )
        for one in model.stack.sublayers
        if hasattr(one.part, "enter")
    ]
    model(batch.inputs_BL)
    for hook in hooks:
        hook.remove()
    codes = [torch.cat(code) for code in codes]
    K = torch.tensor([[float((one == other).sum()) for other in codes] for one in codes]).double()
    assert K[0, 0] == 2 * 3 * 5
    assert proxies.find("relu_log_det").of(model, batch) == pytest.approx(float(torch.logdet(K)), rel=1e-9)


def test_short_training_learns_what_it_is_shown():
    (batch,) = batches(rows=8)
    config = tiny(dim=16, f__inner=32)
    seen, longer = (proxies.score("short_training", config, [batch] * n) for n in (2, 30))
    assert longer < seen < math.log(7) * 1.2


@pytest.mark.parametrize("name", ["decoder_params", "total_params", "flops"])
def test_counts_need_nothing_but_a_config(name):
    config, cost = sublayer.config("gpt2"), sublayer.config("gpt2").cost()
    expected = {"decoder_params": 85_056_000, "total_params": 124_439_808, "flops": cost.flops.total}
    assert proxies.score(name, config) == expected[name]


@pytest.mark.parametrize("paper", ["gpt2", "transformer-xl", "llama", "bert-base", "gtrxl", "opt-350m"])
def test_every_proxy_of_every_kind_of_model(paper):
    """Finite, the same each time, another for another seed; and the model stays as it was."""
    config, given = small(sublayer.config(paper)), batches(rows=4, length=9, vocab=60, count=3)
    for name in LEARNED:
        score = proxies.find(name).score(config, given, seed=1)
        assert math.isfinite(score)
        assert proxies.find(name).score(config, given, seed=1) == score
        assert proxies.find(name).score(config, given, seed=2) != score
    model = config.build()
    before = {key: value.clone() for key, value in model.state_dict().items()}
    for name in LEARNED[:-1]:
        proxies.find(name).of(model, given)
    assert model.training
    assert all(weight.grad is None for weight in model.parameters())
    assert all(torch.equal(value, before[key]) for key, value in model.state_dict().items())
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in model.modules())


def test_the_registry_says_what_each_is():
    assert set(proxies.names()) == {"decoder_params", "total_params", "flops", *LEARNED}
    for name in proxies.names():
        found = proxies.find(name)
        assert found.cite
        assert found.summary.endswith((".", ":"))
    assert {name for name in proxies.names() if not proxies.find(name).higher} == {"grasp", "short_training"}


def test_refusals():
    (batch,) = batches()
    alone = Batch(batch.inputs_BL[:1], batch.targets_BL[:1])
    with pytest.raises(ValueError, match="unknown proxy 'synflo'; did you mean synflow"):
        proxies.score("synflo", tiny(), batch)
    with pytest.raises(ValueError, match="snip: 0 batches of tokens given, 1 at least"):
        proxies.score("snip", tiny())
    with pytest.raises(ValueError, match="short_training: 1 batch of tokens given, 2 at least"):
        proxies.score("short_training", tiny(), batch)
    for name in ("jacob_cov", "relu_log_det"):
        with pytest.raises(ValueError, match=f"{name}: one row given"):
            proxies.score(name, tiny(), alone)
    with pytest.raises(ValueError, match="no part with an activation"):
        proxies.score("relu_log_det", tiny(layout="s"), batch)
    with pytest.raises(ValueError, match="has no objective for a text"):
        proxies.score("snip", small(sublayer.config("transformer")), batch)
