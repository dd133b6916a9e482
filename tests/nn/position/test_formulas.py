"""Each position against its formula, written out for one query and one key at a time."""

import math

import pytest
import torch

from sublayer.nn.attention import MultiHead
from sublayer.nn.part import Slot
from sublayer.nn.position import (
    Alibi,
    Distance,
    Grid,
    Learned,
    NoPosition,
    RelativeKey,
    RelativeXL,
    Rotary,
    Shaw,
    Sinusoidal,
)
from sublayer.nn.position.alibi import slopes
from sublayer.nn.position.relative_xl import skew
from sublayer.nn.position.sinusoidal import sinusoid
from sublayer.nn.scene import Scene

D, H, L = 12, 3, 5
K = D // H


@pytest.fixture(autouse=True)
def _double():
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


def lively(module):
    torch.manual_seed(0)
    for weight in module.parameters():
        torch.nn.init.normal_(weight, std=0.7)
    return module


def by_formula(part, x_BLD, score, weigh=lambda s, h, i, j: s, extra=lambda h, i, j: 0.0):
    """Causal attention with `score(q, k, h, i, j)`, before the division by √K."""
    qkv = x_BLD[0] @ part.qkv.weight.T + part.qkv.bias
    q, k, v = (z.view(L, H, K) for z in qkv.split(D, dim=-1))
    out = torch.zeros(L, H, K)
    for h in range(H):
        for i in range(L):
            scores = torch.stack(
                [weigh(score(q[i, h], k[j, h], h, i, j) / math.sqrt(K), h, i, j) for j in range(i + 1)]
            )
            weights = scores.softmax(0)
            out[i, h] = sum(weights[j] * (v[j, h] + extra(h, i, j)) for j in range(i + 1))
    return out.view(L, D) @ part.output.weight.T + part.output.bias


def attention(position):
    shared = lively(position.build(D, K))
    return lively(MultiHead.Config(heads=H).build(Slot(D, position, shared)))


def run(part):
    torch.manual_seed(1)
    x_BLD = torch.randn(1, L, D)
    return x_BLD, part(x_BLD, Scene(torch.arange(L)[None]))[0][0]


def test_none():
    part = attention(NoPosition.Config())
    x, y = run(part)
    torch.testing.assert_close(y, by_formula(part, x, lambda q, k, h, i, j: q @ k))


def test_alibi():
    part = attention(Alibi.Config())
    x, y = run(part)
    slope = slopes(H, 8.0)
    expected = by_formula(part, x, lambda q, k, h, i, j: q @ k, lambda s, h, i, j: s - slope[h] * (i - j))
    torch.testing.assert_close(y, expected)


def test_alibi_slopes_are_the_papers():
    assert slopes(8, 8.0) == [2**-h for h in range(1, 9)]
    assert slopes(12, 8.0)[8:] == [2 ** -(0.5 + h) for h in range(4)]


def test_vectors_on_keys():
    part = attention(RelativeKey.Config(clip=2))
    x, y = run(part)
    table = part.position.shared.key_RK
    torch.testing.assert_close(y, by_formula(part, x, lambda q, k, h, i, j: q @ (k + table[min(i - j, 2)])))


def test_shaw():
    part = attention(Shaw.Config(clip=2))
    x, y = run(part)
    edge = lambda i, j: max(-2, min(2, j - i)) + 2  # noqa: E731
    expected = by_formula(
        part,
        x,
        lambda q, k, h, i, j: q @ (k + part.position.key_RK[edge(i, j)]),
        extra=lambda h, i, j: part.position.value_RK[edge(i, j)],
    )
    torch.testing.assert_close(y, expected)


@pytest.mark.parametrize("scope", ["stack", "layer"])
@pytest.mark.parametrize("clamp", [None, 2])
def test_relative_xl(scope, clamp):
    part = attention(RelativeXL.Config(scope=scope, clamp=clamp))
    x, y = run(part)
    u, v = (w.view(H, K) for w in (part.position.terms.u_D, part.position.terms.v_D))

    def score(q, k, h, i, j):
        apart = i - j if clamp is None else min(i - j, clamp)
        r = (sinusoid(torch.tensor(apart), D, torch.float64) @ part.position.project.weight.T).view(H, K)[h]
        return q @ k + q @ r + u[h] @ k + v[h] @ r

    torch.testing.assert_close(y, by_formula(part, x, score))


def test_rotary():
    part = attention(Rotary.Config(base=50.0))
    x, y = run(part)

    def turned(z, i):
        pairs = torch.complex(z[: K // 2], z[K // 2 :])
        angle = torch.tensor([i * 50.0 ** (-2 * e / K) for e in range(K // 2)])
        spun = pairs * torch.polar(torch.ones_like(angle), angle)
        return torch.cat([spun.real, spun.imag])

    torch.testing.assert_close(y, by_formula(part, x, lambda q, k, h, i, j: turned(q, i) @ turned(k, j)))


def test_distance():
    part = attention(Distance.Config())
    x, y = run(part)

    def factor(h, apart):
        alpha, beta = part.position.alpha_H[h], part.position.beta_H[h]
        return (1 + beta.exp()) / (1 + (beta - alpha * apart).exp())

    expected = by_formula(
        part, x, lambda q, k, h, i, j: (q @ k).relu(), lambda s, h, i, j: s * factor(h, torch.tensor(float(i - j)))
    )
    torch.testing.assert_close(y, expected)


def test_distance_is_one_at_zero_monotone_and_bounded():
    position = lively(Distance(heads=4))
    factor = position.factor(torch.arange(0.0, 200.0).view(1, 1, 1, -1))[0, :, 0].detach()
    torch.testing.assert_close(factor[:, 0], torch.ones(4))
    steps = factor.diff(dim=-1)
    assert all((step >= 0).all() or (step <= 0).all() for step in steps)
    assert (factor <= 1 + position.beta_H[:, None].exp() + 1e-12).all()


def test_sinusoids_are_the_papers_up_to_order():
    table = sinusoid(torch.arange(7), D, torch.float64)
    for e in range(D // 2):
        for i in range(7):
            assert table[i, e] == pytest.approx(math.sin(i * 10000 ** (-2 * e / D)))
            assert table[i, D // 2 + e] == pytest.approx(math.cos(i * 10000 ** (-2 * e / D)))


def test_embeddings_of_places_are_added():
    x, scene = torch.zeros(1, L, D), Scene(torch.arange(3, 3 + L)[None], start=3)
    torch.testing.assert_close(
        Sinusoidal.Config().build(D, K).embed(x, scene)[0], sinusoid(torch.arange(3, 3 + L), D, torch.float64)
    )
    learned = lively(Learned.Config(limit=9, offset=2).build(D, K))
    torch.testing.assert_close(learned.embed(x, scene)[0], learned.weight[5 : 5 + L])


@pytest.mark.parametrize("start", [0, 3])
def test_a_grid_counts_like_the_digits_of_a_clock(start):
    grid = lively(Grid.Config(shape=(2, 3, 4)).build(D, K))
    scene = Scene(torch.arange(start, 20)[None], start=start)
    found = grid.embed(torch.zeros(1, 20 - start, D), scene)[0]
    places = [(row, column, channel) for row in range(2) for column in range(3) for channel in range(4)][start:20]
    for vector, place in zip(found, places, strict=True):
        torch.testing.assert_close(vector, sum(axis[n] for axis, n in zip(grid.axes, place, strict=True)))


def test_a_grid_ends_somewhere():
    grid = Grid.Config(shape=(2, 2)).build(D, K)
    with pytest.raises(
        ValueError, match=r"a grid of 2 × 2 has 4 positions, got a sequence that needs 5\. Set a larger"
    ):
        grid.embed(torch.zeros(1, L, D), Scene(torch.arange(L)[None]))
    ragged = Scene(torch.tensor([[-1, 0]]), valid_BL=torch.ones(1, 2, dtype=torch.bool))
    with pytest.raises(ValueError, match="expected 0 or more, got -1"):
        grid.embed(torch.zeros(1, 2, D), ragged)


def test_learned_positions_end_and_start_somewhere():
    learned = Learned.Config(limit=4).build(D, K)
    with pytest.raises(ValueError, match=r"4 learned positions, got a sequence that needs 5\. Set position.limit=5"):
        learned.embed(torch.zeros(1, L, D), Scene(torch.arange(L)[None]))
    ragged = Scene(torch.tensor([[-1, 0]]), valid_BL=torch.ones(1, 2, dtype=torch.bool))
    with pytest.raises(ValueError, match="expected 0 or more, got -1"):
        learned.embed(torch.zeros(1, 2, D), ragged)


def test_skew_moves_each_row_to_its_keys():
    by_distance = torch.arange(4.0).flip(0).expand(1, 1, 2, 4).contiguous()  # each column holds its distance
    assert skew(by_distance)[0, 0].tolist()[1] == [3, 2, 1, 0]
    assert skew(by_distance)[0, 0, 0, :3].tolist() == [2, 1, 0]


@pytest.mark.parametrize("kind", [Rotary, Alibi, Shaw, RelativeXL, Distance])
def test_relative_positions_depend_on_distance_alone(kind):
    part = attention(kind.Config())
    torch.manual_seed(2)
    x_BLD = torch.randn(1, L, D)
    here, there = (part(x_BLD, Scene(torch.arange(first, first + L)[None], start=first))[0] for first in (0, 1000))
    torch.testing.assert_close(here, there, rtol=1e-9, atol=1e-9)
