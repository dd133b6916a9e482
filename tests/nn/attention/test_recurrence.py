"""Kernels with a recurrent form: chunks, recurrence, C and the quadratic form agree; estimates are what they say."""

import math

import pytest
import torch

import sublayer
from sublayer.nn.attention import MultiHead
from sublayer.nn.attention.kernel import Delta, Kernel, Linear, Performer, Retention, native_recurrence, recurrence
from sublayer.nn.attention.kernel.delta import Direction
from sublayer.nn.attention.kernel.features import FeatureMap
from sublayer.nn.attention.kernel.linear import EluPlusOne
from sublayer.nn.attention.kernel.performer import Positive, Relu
from sublayer.nn.attention.kernel.random_features import RandomMatrix, gaussian, orthogonal
from sublayer.nn.attention.kernel.recurrence import Sums, Terms
from sublayer.nn.attention.kernel.rfa import Waves
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
}
"""B, H, G, L, size of a query or key, K."""


class Squares(FeatureMap):
    def __call__(self, x_BHLK):
        return x_BHLK.square()


KINDS = {
    "sums": {},
    "weights": {"normed": True},
    "fading sums of a given size": {"fades": True, "eps": 0.1},
    "fading weights": {"fades": True, "normed": True, "gains": True},
    "at least": {"normed": True, "least": True},
    "delta rule": {"corrects": True},
    "gated delta rule": {"corrects": True, "fades": True, "eps": 0.1, "features": Direction},
    "elu": {"normed": True, "features": EluPlusOne},
    "relu": {"normed": True, "gains": True, "features": Relu},
    "exponentials": {"normed": True, "gains": True, "features": Positive},
    "fading waves": {"normed": True, "fades": True, "gains": True, "least": True, "features": Waves},
    "a map that C does not know": {"normed": True, "features": Squares},
}
DRAWN = 48
"""Rows of vectors; more than there are tokens in a chunk of "one chunk", and no multiple of 64."""


def given(shape, kind, dtype=torch.float64):
    """Terms and sums by name, with a gradient."""
    asked = KINDS[kind]
    (B, H, G, L, X, K), features = shape, asked.get("features")
    drawn = features in (Relu, Positive, Waves)
    F = X if not drawn else 2 * DRAWN if features is Waves else DRAWN
    generator = torch.Generator().manual_seed(0)
    positive = lambda *size: torch.rand(size, generator=generator, dtype=torch.float64)  # noqa: E731
    signed = lambda *size: torch.randn(size, generator=generator, dtype=torch.float64)  # noqa: E731
    draw, k = (signed, signed(B, G, L, X)) if features else (positive, positive(B, G, L, X))
    found = {
        "q_BHLX": draw(B, H, L, X),
        "k_BGLX": k if features else k / k.norm(dim=-1, keepdim=True),
        "v_BGLK": signed(B, G, L, K),
        "s_BGFK": signed(B, G, F, K),
        "w_GFK": 0.3 * signed(G, DRAWN, X) if drawn else None,
        "fade_BGL": -0.3 * positive(B, G, L) if "fades" in asked else None,
        "gain_BGL": -positive(B, G, L) if "gains" in asked else None,
        "strength_BGL": positive(B, G, L) if "corrects" in asked else None,
        "least_BGL": 5 * positive(B, G, L) if "least" in asked else None,
        "z_BGF": positive(B, G, F) if "normed" in asked else None,
    }
    if (gain_BGL := found["gain_BGL"]) is not None:
        gain_BGL[0, :, :2] = gain_BGL[0, :, 5:7] = gain_BGL[-1, :, -3:] = -torch.inf
    found = {name: None if x is None else x.to(dtype).requires_grad_() for name, x in found.items()}
    top_BG = positive(B, G).to(dtype) if features is Positive else None
    if top_BG is not None:
        top_BG[0] = -torch.inf  # as before the first token
    return found, {"features": features and (lambda w: features(w)), "eps": asked.get("eps"), "top_BG": top_BG}


def pair_of(inputs):
    found, asked = inputs
    sums = Sums(found["s_BGFK"], found["z_BGF"], asked["top_BG"])
    names = ("q_BHLX", "k_BGLX", "v_BGLK", "fade_BGL", "gain_BGL", "strength_BGL", "least_BGL")
    features = asked["features"] and asked["features"](found["w_GFK"])
    return Terms(**{name: found[name] for name in names}, features=features, eps=asked["eps"]), sums


def results(form, inputs):
    """Outputs, and the gradient of all inputs by all outputs."""
    y, after = form(*pair_of(inputs))
    outputs = [x for x in (y, after.s_BGFK, after.z_BGF, after.top_BG) if x is not None]
    total = sum((x * torch.arange(x.numel(), dtype=torch.float64).cos().view_as(x).to(x.dtype)).sum() for x in outputs)
    wanted = [x for x in inputs[0].values() if x is not None]
    return [x.detach() for x in outputs] + list(torch.autograd.grad(total, wanted))


def assert_alike(found, expected, tolerance):
    for ours, theirs in zip(found, expected, strict=True):
        size = max(1.0, float(theirs.abs().max()))
        torch.testing.assert_close(ours.double() / size, theirs / size, atol=tolerance, rtol=0)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_chunks_are_the_recurrence(shape, kind):
    inputs = given(shape, kind)
    assert_alike(results(recurrence.chunkwise, inputs), results(recurrence.one_by_one, inputs), 1e-11)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_c_is_its_twin(shape, kind, monkeypatch):
    monkeypatch.setattr(native_recurrence, "WORTH", 0)
    inputs = given(shape, kind, torch.float32)
    assert native_recurrence.serves(*pair_of(inputs))
    assert_alike(results(native_recurrence.run, inputs), results(recurrence.chunkwise, given(shape, kind)), 1e-5)


@pytest.mark.parametrize("kind", ["gated delta rule", "fading waves"])
def test_c_does_not_depend_on_the_number_of_threads(kind):
    inputs, before = given(SHAPES["one chunk"], kind, torch.float32), torch.get_num_threads()
    try:
        found = []
        for threads in (1, 3):
            torch.set_num_threads(threads)
            found.append(results(native_recurrence.run, inputs))
    finally:
        torch.set_num_threads(before)
    assert all(torch.equal(one, other) for one, other in zip(*found, strict=True))


def test_c_reads_sums_that_are_not_contiguous():
    inputs = given(SHAPES["odd"], "fading weights", torch.float32)
    s = inputs[0]["s_BGFK"].detach().transpose(2, 3).contiguous().transpose(2, 3).requires_grad_()
    assert not s.is_contiguous()
    expected = results(recurrence.chunkwise, given(SHAPES["odd"], "fading weights"))
    assert_alike(results(native_recurrence.run, ({**inputs[0], "s_BGFK": s}, inputs[1])), expected, 1e-5)


def test_the_quadratic_form():
    """Σ_j φ(q_i)·φ(k_j) v_j / Σ_j φ(q_i)·φ(k_j), the matrix written out."""
    q, k, v, s, *_, z = given((1, 2, 2, 90, 16, 8), "weights")[0].values()
    y, _ = recurrence.chunkwise(Terms(q, k, v), Sums(torch.zeros_like(s), torch.zeros_like(z)))
    scores = (q @ k.transpose(-1, -2)).tril()
    torch.testing.assert_close(y, scores @ v / scores.sum(-1, keepdim=True), atol=1e-12, rtol=0)


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
    monkeypatch.setattr(Positive, "exponents", False)
    monkeypatch.setattr(
        Positive, "__call__", lambda self, x: (e := self.products(x)).sub(e.amax((2, 3), keepdim=True)).exp() + 1e-4
    )
    with pytest.raises(LawBroken):
        LAWS["causality"](Case(config))


@pytest.mark.parametrize("worth", [0, 2**60], ids=["C", "PyTorch"])
def test_large_keys_neither_overflow_nor_vanish(worth, monkeypatch):
    """One key a thousand times as likely as all others, late; texts before it are not forgotten."""
    monkeypatch.setattr(native_recurrence, "WORTH", worth)
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
        positive = Positive(draw(features, len(x), generator)[None] * len(x) ** -0.25)
        x_11LK, y_11LK = (root * one[None, None, None] for one in (x, y))
        found.append((positive(x_11LK).exp() * positive(y_11LK).exp()).mean())
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
        waves = Waves(gaussian(64, 16, generator)[None] / sigma)
        x_11LK, y_11LK = 3 * x[None, None, None], 0.1 * y[None, None, None]  # lengths do not matter
        found.append((waves(x_11LK) * waves(y_11LK)).sum())
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
