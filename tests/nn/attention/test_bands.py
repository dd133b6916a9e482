"""Attention over bands in C: values and gradients of the mask that they stand for, whatever else joins the scores."""

from itertools import pairwise
from unittest import mock

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from sublayer.nn.attention import native
from sublayer.nn.attention.along import Terms
from sublayer.nn.attention.bands import Band, count, dense
from sublayer.nn.attention.dropout import kept

SEED = 12345678901234567


def window(length: int, memory: int, size: int) -> Band:
    own = torch.arange(length) + memory
    return Band((own - size + 1).clamp(min=0).int(), (own + 1).int())


def columns(length: int, memory: int, size: int, stride: int, heads: tuple[bool, ...]) -> Band:
    """Every `stride`-th key before the window: queries and keys ordered by their remainder."""
    key = torch.arange(memory + length)
    queries = torch.argsort(key[memory:] % stride, stable=True)
    keys = torch.argsort(key % stride, stable=True)
    own = queries + memory
    lo = (key[None] % stride < own[:, None] % stride).sum(1)
    hi = lo + ((own - size - own % stride) // stride + 1).clamp(min=0)
    return Band(lo.int(), hi.int(), queries.int(), keys.int(), heads)


def attend_openly(q, k, v, seen, bias, kept):
    """The slow twin, with the weights as a matrix."""
    k, v = (x.repeat_interleave(q.shape[1] // x.shape[1], 1) for x in (k, v))
    scores = q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5 + bias
    weights = scores.masked_fill(~seen, -torch.inf).softmax(-1).nan_to_num(0)
    return weights * kept @ v


@settings(deadline=None)
@given(
    st.sampled_from([1, 23, 24, 25, 100, 200, 300]) | st.integers(1, 130),
    st.sampled_from([0, 5, 800]),
    st.sampled_from([(1, 1), (4, 2), (3, 1)]),
    st.sampled_from(["dense", "everyone", "window", "window and columns"]),
    st.sampled_from([0.0, 0.3]),
    st.booleans(),
    st.sampled_from(["all", "each query"]),
)
def test_it_is_masked_attention(L, memory, heads, kind, dropout, padded, biased):
    """Against double precision: memory, grouped heads, bands of some heads, dropout, padding, a bias by distance."""
    torch.manual_seed(0)
    (H, G), B, K, M = heads, 2, 32, L + memory
    bands = {
        "dense": [dense(L, memory, causal=True)],
        "everyone": [dense(L, memory, causal=False)],
        "window": [window(L, memory, 50)],
        "window and columns": [
            window(L, memory, 50),
            columns(L, memory, 50, 7, tuple(h % 2 == 0 for h in range(H))),
        ],
    }[kind]
    seen = (count(bands, H, L, M) == 1)[None]
    valid = torch.rand(B, M) > 0.2 if padded else None
    seen = seen if valid is None else seen & valid[:, None, None]
    terms = Terms(tuple(bands), valid, L, dropout)
    keep = kept(SEED, dropout, B, H, L, M).double() / (1 - dropout)
    args = [torch.randn(B, heads, n, K) for heads, n in ((H, L), (G, M), (G, M))]
    args.append(torch.randn(1, H, 1, M + L) if biased == "all" else torch.randn(B, H, L, M + L))
    apart = L + torch.arange(M)[None] - torch.arange(L)[:, None]
    grad = torch.randn(B, H, L, K)

    def run(attend, args):
        own = [x.requires_grad_() for x in args]
        y = attend(*own)
        return y, *torch.autograd.grad(y, own, grad.to(y.dtype))

    def openly(q, k, v, bias):
        gathered = bias.expand(-1, -1, L, -1).gather(-1, apart.expand(*bias.shape[:2], -1, -1))
        return attend_openly(q, k, v, seen, gathered, keep)

    with mock.patch.object(native, "draw_seed", return_value=SEED):
        found = run(lambda *args: native.attend_bands(*args, terms), [x.clone() for x in args])
    expected = run(openly, [x.double() for x in args])
    for ours, theirs in zip(found, expected, strict=True):
        torch.testing.assert_close(ours.double(), theirs, atol=2e-5, rtol=2e-5)


@pytest.mark.parametrize("rate", [0.1, 0.5, 0.9])
def test_dropout_drops_its_share_and_no_two_alike(rate):
    keep = kept(SEED, rate, 2, 3, 50, 400).double()
    assert abs(keep.mean() - (1 - rate)) < 0.01
    rows = (keep - keep.mean()).view(300, 400)
    rows = rows / rows.norm(dim=1, keepdim=True)
    assert (rows @ rows.T - torch.eye(300)).abs().max() < 0.3
    assert not torch.equal(keep, kept(SEED + 1, rate, 2, 3, 50, 400))


def test_tiles_hold_every_query_once_and_end_where_intervals_jump():
    band = columns(600, 0, 5, 7, (True,))
    tiles = band.tiles.tolist()
    assert (tiles[0], tiles[-1]) == (0, 600)
    for a, b in pairwise(tiles):
        assert 0 < b - a <= 24
        assert (band.lo[a:b] == band.lo[a]).all(), "a tile holds one column"
    assert band.pairs() < 600 * 600 / 7
