"""Kernels with a recurrent form: chunks, recurrence, C and the quadratic form agree; estimates are what they say."""

import math

import pytest
import torch

import sublayer
from sublayer.nn.attention import MultiHead
from sublayer.nn.attention.kernel import Delta, Kernel, Linear, Performer, Retention, native_recurrence, recurrence
from sublayer.nn.attention.kernel.performer import exponents
from sublayer.nn.attention.kernel.random_features import RandomMatrix, gaussian, orthogonal
from sublayer.nn.attention.kernel.recurrence import Sums, Terms
from sublayer.nn.attention.kernel.rfa import waves
from sublayer.nn.config import ConfigError
from sublayer.nn.part import Slot
from sublayer.nn.scene import Scene
from sublayer.nn.stepping import after_step
from sublayer.testing import LAWS, Case, LawBroken, small
from tests.training import tiny

SHAPES = {
    "one chunk": (2, 4, 2, 17, 16, 32),
    "whole chunks": (1, 2, 2, 128, 64, 64),
    "odd": (2, 4, 1, 150, 32, 16),
    "many features": (1, 1, 1, 200, 128, 16),
}
"""B, H, G, L, F, K."""


def given(shape, fades=True, normed=True, corrects=False, dtype=torch.float64):
    """Terms and sums with a gradient."""
    B, H, G, L, F, K = shape
    torch.manual_seed(0)
    k = torch.rand(B, G, L, F, dtype=torch.float64)
    given = {
        "q": torch.rand(B, H, L, F, dtype=torch.float64),
        "k": k / k.norm(dim=-1, keepdim=True),
        "v": torch.randn(B, G, L, K, dtype=torch.float64),
        "fade": -0.3 * torch.rand(B, G, L, dtype=torch.float64) if fades else None,
        "strength": torch.rand(B, G, L, dtype=torch.float64) if corrects else None,
        "s": torch.randn(B, G, F, K, dtype=torch.float64),
        "z": torch.rand(B, G, F, dtype=torch.float64) if normed else None,
    }
    return [None if x is None else x.to(dtype).requires_grad_() for x in given.values()]


def results(form, inputs):
    """Outputs, and the gradient of all inputs by all outputs."""
    y, weight, after = form(Terms(*inputs[:5]), Sums(*inputs[5:]))
    outputs = [x for x in (y, weight, after.s_BGFK, after.z_BGF) if x is not None]
    total = sum((x * torch.arange(x.numel(), dtype=torch.float64).cos().view_as(x).to(x.dtype)).sum() for x in outputs)
    return [x.detach() for x in outputs] + list(torch.autograd.grad(total, [x for x in inputs if x is not None]))


def assert_alike(found, expected, tolerance):
    for ours, theirs in zip(found, expected, strict=True):
        size = max(1.0, float(theirs.abs().max()))
        torch.testing.assert_close(ours.double() / size, theirs / size, atol=tolerance, rtol=0)


@pytest.mark.parametrize("corrects", [False, True], ids=["adds", "delta rule"])
@pytest.mark.parametrize("fades", [False, True], ids=["stays", "fades"])
@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_chunks_are_the_recurrence(shape, fades, corrects):
    inputs = given(shape, fades, normed=not corrects, corrects=corrects)
    assert_alike(results(recurrence.chunkwise, inputs), results(recurrence.one_by_one, inputs), 1e-11)


@pytest.mark.parametrize("normed", [False, True], ids=["sums", "weights"])
@pytest.mark.parametrize("fades", [False, True], ids=["stays", "fades"])
@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_c_is_its_twin(shape, fades, normed, monkeypatch):
    monkeypatch.setattr(native_recurrence, "WORTH", 0)
    inputs = given(shape, fades, normed, dtype=torch.float32)
    assert native_recurrence.serves(Terms(*inputs[:5]), Sums(*inputs[5:]))
    expected = results(recurrence.chunkwise, given(shape, fades, normed))
    assert_alike(results(native_recurrence.run, inputs), expected, 1e-5)


def test_c_does_not_depend_on_the_number_of_threads():
    inputs, before = given(SHAPES["odd"], dtype=torch.float32), torch.get_num_threads()
    try:
        found = []
        for threads in (1, 3):
            torch.set_num_threads(threads)
            found.append(results(native_recurrence.run, inputs)[:5])
    finally:
        torch.set_num_threads(before)
    assert all(torch.equal(one, other) for one, other in zip(*found, strict=True))


def test_c_reads_sums_that_are_not_contiguous(monkeypatch):
    inputs = given(SHAPES["odd"], dtype=torch.float32)
    inputs[5] = inputs[5].detach().transpose(2, 3).contiguous().transpose(2, 3).requires_grad_()
    assert not inputs[5].is_contiguous()
    assert_alike(results(native_recurrence.run, inputs), results(recurrence.chunkwise, given(SHAPES["odd"])), 1e-5)


def test_the_quadratic_form():
    """Σ_j φ(q_i)·φ(k_j) v_j / Σ_j φ(q_i)·φ(k_j), the matrix written out."""
    q, k, v, *_, s, z = given((1, 2, 2, 90, 16, 8), fades=False)
    y, weight, _ = recurrence.chunkwise(Terms(q, k, v), Sums(torch.zeros_like(s), torch.zeros_like(z)))
    scores = (q @ k.transpose(-1, -2)).tril()
    torch.testing.assert_close(y / weight, scores @ v / scores.sum(-1, keepdim=True), atol=1e-12, rtol=0)


KERNELS = [Linear.Config(), Retention.Config(), Delta.Config(), Delta.Config(gate=False), Performer.Config(features=32)]
SEVERAL = (*KERNELS, Kernel.Config.parse({"kind": "rfa"}), Kernel.Config.parse({"kind": "rfa", "gate": True}))


@pytest.mark.parametrize("kernel", SEVERAL, ids=str)
@pytest.mark.parametrize("law", ["causality", "segmentation", "padding", "oracle", "generation"])
def test_laws_of_long_texts(kernel, law):
    """Beyond several chunks."""
    config = small(sublayer.config("gpt2")).but({"s.kernel": kernel, "position": "none", "s.kv_heads": 2})
    assert LAWS[law](Case(config, batch=2, cuts=(70, 1, 60))).holds


def test_a_largest_exponent_over_all_keys_would_leak(monkeypatch):
    """As in public versions: the law sees it where it changes what is rounded to zero."""
    config = small(sublayer.config("gpt2")).but({"s.kernel": "performer", "position": "none"})
    plain = Performer.terms

    def leaking(self, q, k, v, view, state):
        terms, top = plain(self, q, k, v, view, state)
        return Terms(terms.q_BHLF, terms.k_BGLF + 1e-6 * k.amax((2, 3), keepdim=True), v, terms.fade_BGL), top

    monkeypatch.setattr(Performer, "terms", leaking)
    with pytest.raises(LawBroken):
        LAWS["causality"](Case(config))


def test_large_keys_neither_overflow_nor_vanish():
    """One key a thousand times as likely as all others, late; texts before it are not forgotten."""
    torch.manual_seed(0)
    kernel = Performer.Config(features=64).build(Slot(16), 1, 1, 16)
    part = MultiHead.Config(heads=1, kernel=kernel.config).build(Slot(16))
    x = torch.randn(1, 60, 16)
    x[0, 40] *= 100
    part.qkv.weight.data.mul_(5)
    with torch.no_grad():
        whole, _ = part(x, Scene(torch.arange(60)[None]))
        first, _ = part(x[:, :40], Scene(torch.arange(40)[None]))
    assert whole.isfinite().all()
    torch.testing.assert_close(whole[:, :40], first, atol=1e-5, rtol=1e-5)


def estimates(draw, features, x, y, times=300):
    """exp(x · y) as positive features estimate it, again and again."""
    generator, found = torch.Generator().manual_seed(0), []
    root = len(x) ** 0.25  # features divide by it
    for _ in range(times):
        w = draw(features, len(x), generator) * len(x) ** -0.25
        found.append((exponents(root * x, w).exp() * exponents(root * y, w).exp()).mean())
    return torch.stack(found)


def pair(size, norm=1.0):
    generator = torch.Generator().manual_seed(1)
    x, y = torch.randn(2, size, generator=generator, dtype=torch.float64)
    return norm * x / x.norm(), norm * y / y.norm()


@pytest.mark.parametrize("draw", [gaussian, orthogonal])
def test_positive_features_are_unbiased(draw):
    """Within 4.5 standard errors: a right estimate fails once in 150,000 draws of the seed."""
    x, y = pair(16)
    found = estimates(draw, 64, x, y, times=2000)
    assert abs(found.mean() - torch.exp(x @ y)) < 4.5 * found.std() / len(found) ** 0.5


def test_an_orthogonal_matrix_without_the_sign_is_biased():
    """Its entries are then not as likely positive as negative: the test above would see it."""
    x = torch.full((4,), 0.5, dtype=torch.float64)

    def unsigned(features, size, generator):
        q, _ = torch.linalg.qr(gaussian(size, size, generator))
        return q.T * gaussian(size, size, generator).norm(dim=1, keepdim=True)

    found, right = (estimates(draw, 4, x, x, times=4000) for draw in (unsigned, orthogonal))
    assert abs(found.mean() - math.e) > 4.5 * found.std() / len(found) ** 0.5
    assert abs(right.mean() - math.e) < 4.5 * right.std() / len(right) ** 0.5


def test_errors_fall_with_the_root_of_the_number_of_features():
    x, y = pair(16)
    few, many = (estimates(gaussian, features, x, y, times=1000).std() for features in (32, 512))
    assert few / many == pytest.approx(4, rel=0.15)


def test_orthogonal_features_have_smaller_errors_than_independent_ones():
    x, y = pair(16)
    assert estimates(orthogonal, 16, x, y, 2000).std() < 0.95 * estimates(gaussian, 16, x, y, 2000).std()


def trigonometric(x, y, features, times=300):
    """exp(x · y) by sines and cosines: e^(|x|²/2 + |y|²/2) cos(w · (x − y))."""
    generator = torch.Generator().manual_seed(0)
    factor = torch.exp((x @ x + y @ y) / 2)
    drawn = (gaussian(features, len(x), generator) @ (x - y) for _ in range(times))
    return torch.stack([factor * w.cos().mean() for w in drawn])


def test_positive_features_are_better_where_the_kernel_is_small():
    x, _ = pair(16, norm=1.5)
    positive, waves_ = estimates(gaussian, 64, x, -x, 1000), trigonometric(x, -x, 64, 1000)
    exact = torch.exp(-(x @ x))
    assert (positive - exact).square().mean() < 0.1 * (waves_ - exact).square().mean()


def test_sines_and_cosines_estimate_a_gaussian_of_unit_vectors():
    x, y = pair(16)
    generator, sigma, found = torch.Generator().manual_seed(0), 0.8, []
    for _ in range(2000):
        w = gaussian(64, 16, generator)[None] / sigma
        found.append((waves(3 * x[None, None], w) * waves(0.1 * y[None, None], w)).sum())  # lengths do not matter
    found = torch.stack(found)
    exact = torch.exp(-(x - y).square().sum() / (2 * sigma**2))
    assert abs(found.mean() - exact) < 4.5 * found.std() / len(found) ** 0.5


def test_the_estimate_comes_nearer_to_softmax_with_more_features():
    torch.manual_seed(0)
    x, errors = torch.randn(2, 40, 32), []
    exact = MultiHead.Config(heads=2).build(Slot(32)).eval()
    scene = Scene(torch.arange(40)[None])
    with torch.no_grad():
        expected = exact(x, scene)[0]
        for features in (16, 256, 4096):
            part = MultiHead.Config(heads=2, kernel=Performer.Config(features=features)).build(Slot(32)).eval()
            part.load_state_dict(exact.state_dict(), strict=False)
            errors.append(float((part(x, scene)[0] - expected).abs().mean()))
    assert errors[1] < 0.6 * errors[0]
    assert errors[2] < 0.6 * errors[1]


def test_features_are_drawn_again_by_seed_and_step():
    torch.manual_seed(3)
    matrix = RandomMatrix(24, 8, redraw=10)
    first = matrix.w_FK.clone()
    after_step(matrix, 9)
    assert torch.equal(matrix.w_FK, first)
    after_step(matrix, 10)
    second = matrix.w_FK.clone()
    assert not torch.equal(second, first)
    torch.manual_seed(3)
    resumed = RandomMatrix(24, 8, redraw=10)
    torch.manual_seed(99)
    after_step(resumed, 10)
    assert torch.equal(resumed.w_FK, second)


def test_a_run_draws_its_features_again(book, tmp_path):
    """After the second step, and the fourth; what is loaded is the last draw."""
    drawn = []
    for steps in (1, 2, 3, 4):
        run = tiny.train(book, tmp_path / str(steps), "performer", **{"s.kernel.redraw": 2, "train__steps": steps})
        state = sublayer.load(run.path).model.state_dict()
        drawn.append(torch.cat([state[name] for name in state if name.endswith("w_FK")]))
    one, two, three, four = drawn
    assert torch.equal(two, three)
    assert not any(torch.equal(*pair) for pair in ((one, two), (three, four), (one, four)))


def test_mean_weights_keep_the_last_draw(book, tmp_path):
    changes = {"s.kernel.redraw": 1, "train__steps": 4, "train__save_every": 1, "train__average": 3, "train__keep": 3}
    run = tiny.train(book, tmp_path / "run", "performer", **changes)
    last = run.checkpoints[-1]
    mean, newest = last.tensors("average"), last.tensors("model")
    for name in newest:
        assert torch.equal(mean[name], newest[name]) == name.endswith("w_FK"), name


@pytest.mark.parametrize("tag", ["retention", "delta"])
def test_what_reads_from_left_to_right_does_not_look_both_ways(tag):
    with pytest.raises(ValueError, match=f"kernel={tag} reads from left to right, but pattern=full looks both ways"):
        MultiHead.Config(kernel=tag, pattern="full", memory="none")


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"s.kernel.features": 0}, "features"),
        ({"s.kernel.features": "many"}, "features"),
        ({"s.kernel.redraw": -1}, "redraw"),
        ({"s.kernel.draw": "random"}, "draw"),
        ({"s.pattern": "window"}, "hides some of it"),
    ],
)
def test_wrong_settings_are_refused(changes, says):
    with pytest.raises(ConfigError, match=says):
        sublayer.config("performer", changes)
