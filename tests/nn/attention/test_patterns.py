"""Every pattern: its bands are its predicate, and attention along them is attention under its mask."""

from contextlib import nullcontext

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.utils.flop_counter import FlopCounterMode

import sublayer
from sublayer.nn import paths
from sublayer.nn.attention import Full, MultiHead, Window, banded, native
from sublayer.nn.attention.along import Terms
from sublayer.nn.attention.bands import count
from sublayer.nn.attention.kernel.softmax import BANDS
from sublayer.nn.attention.pattern import (
    BigBird,
    BlockLocal,
    BlockLocal2D,
    Blockwise,
    ByLayer,
    Causal,
    Dilated,
    Fixed,
    Global,
    Longformer,
    PerHead,
    Random,
    Strided,
    Union,
)
from sublayer.nn.attention.pattern.base import bands_of
from sublayer.nn.config import ConfigError
from sublayer.nn.memory import Cache, NoMemory
from sublayer.nn.part import Slot, Work
from sublayer.nn.position import Rotary
from sublayer.nn.scene import Scene
from sublayer.testing import LAWS, Case, small
from tests.nn.attention.test_bands import attend_openly

BACK = {
    "causal": Causal.Config(),
    "window": Window.Config(size=9),
    "dilated": Dilated.Config(of=Window.Config(size=4), by=3),
    "strided": Strided.Config(stride=7),
    "strided per head": Strided.Config(stride=7, use="per_head"),
    "fixed": Fixed.Config(stride=8, summary=2),
    "fixed per head": Fixed.Config(stride=8, summary=2, use="per_head"),
    "block_local": BlockLocal.Config(size=8, before=5),
    "block_local_2d": BlockLocal2D.Config(width=12, rows=3, columns=4, above=2, beside=3),
    "global": Causal.Config(of=Global.Config(first=3)),
    "random": Random.Config(block=8, blocks=2),
    "bigbird": BigBird.Config(block=8, globals=1, random=2, look="back"),
    "longformer": Longformer.Config(size=8, globals=2, dilation=2),
    "nested": Union.Config(
        members=(PerHead.Config(members=(Window.Config(size=5), Strided.Config(stride=6))), Random.Config(block=4))
    ),
}
BOTH = {
    "full": Full.Config(),
    "window both ways": Window.Config(size=9, look="both"),
    "dilated both ways": Dilated.Config(of=Window.Config(size=4, look="both"), by=3),
    "block_local both ways": BlockLocal.Config(size=8, before=5, look="both"),
    "blockwise": Blockwise.Config(size=8, orders=((0, 1, 2), (2, 0, 1))),
    "global both ways": Global.Config(first=3),
    "summaries": Global.Config(first=0, every=9, count=2),
    "random both ways": Random.Config(block=8, blocks=2, look="both", among=64),
    "bigbird both ways": BigBird.Config(block=8, globals=1, random=2),
    "longformer both ways": Longformer.Config(size=8, globals=2, dilation=2, look="both"),
}
HEADS = 4


def seen_by_predicate(pattern, length, memory, start):
    i, j = torch.arange(start, start + length)[:, None], torch.arange(start - memory, start + length)[None]
    return torch.stack([kind.sees(i, j).expand(length, memory + length) for kind in pattern.by_head(HEADS)])


@given(st.sampled_from([*BACK, *BOTH]), st.integers(1, 700), st.integers(0, 90), st.integers(0, 50))
def test_bands_are_the_predicate(name, length, memory, forgotten):
    """Each pair that it allows once, and no other; with earlier keys, of which the first may be forgotten."""
    pattern = (BACK | BOTH)[name]
    memory, forgotten = (memory, forgotten) if name in BACK else (0, 0)
    bands = bands_of(pattern, HEADS, length, memory, memory + forgotten)
    expected = seen_by_predicate(pattern, length, memory, memory + forgotten)
    assert torch.equal(count(bands, HEADS, length, memory + length), expected.to(torch.uint8))


CASES = [(name, *sizes) for name in BACK for sizes in ((37, 0), (150, 20), (300, 0))]
CASES += [(name, L, 0) for name in BOTH for L in (37, 170, 300)]


@pytest.mark.parametrize(("name", "L", "memory"), CASES)
def test_values_and_gradients_are_those_of_the_mask(name, L, memory):
    """Of both paths, with padding, grouped heads and a bias by distance: 1e-5 in C, 1e-10 in its twin."""
    torch.manual_seed(0)
    pattern, (B, G, K), M = (BACK | BOTH)[name], (2, 2, 16), L + memory
    valid = torch.rand(B, M) > 0.1
    seen = seen_by_predicate(pattern, L, memory, memory)[None] & valid[:, None, None]
    args = [torch.randn(B, n, m, K, dtype=torch.float64) for n, m in ((HEADS, L), (G, M), (G, M))]
    args.append(torch.randn(1, HEADS, 1, M + L, dtype=torch.float64))
    grad, terms = (
        torch.randn(B, HEADS, L, K, dtype=torch.float64),
        Terms(bands_of(pattern, HEADS, L, memory, memory), valid, L),
    )
    apart = L + torch.arange(M)[None] - torch.arange(L)[:, None]

    def run(attend, dtype=torch.float64):
        own = [x.to(dtype).requires_grad_() for x in args]
        y = attend(*own)
        return y, *torch.autograd.grad(y, own, grad.to(dtype))

    expected = run(lambda q, k, v, bias: attend_openly(q, k, v, seen, bias[:, :, 0][:, :, apart], 1))
    for here, there in zip(run(lambda *own: banded.attend(*own, terms)), expected, strict=True):
        torch.testing.assert_close(here, there, atol=1e-10, rtol=1e-10)
    for here, there in zip(run(lambda *own: native.attend_bands(*own, terms), torch.float32), expected, strict=True):
        torch.testing.assert_close(here.double(), there, atol=1e-5, rtol=1e-5)


def attention(pattern, kv_heads=None, **options):
    memory = Cache.Config() if pattern.causal else NoMemory.Config()
    config = MultiHead.Config(heads=HEADS, kv_heads=kv_heads, pattern=pattern, memory=memory)
    torch.manual_seed(0)
    part = config.build(Slot(16, Rotary.Config())).double()
    for weight in part.parameters():
        torch.nn.init.normal_(weight, std=0.5)
    return part


@pytest.mark.parametrize("name", [*BACK, *BOTH])
@pytest.mark.parametrize("kv_heads", [None, 2])
def test_a_part_is_its_slow_twin(name, kv_heads):
    part = attention((BACK | BOTH)[name], kv_heads)
    x_BLD = torch.randn(1, 200, 16, dtype=torch.float64)
    results = []
    for slow in (nullcontext, paths.by_slow_twins):
        with slow():
            y_BLD, _ = part(x_BLD, Scene(torch.arange(200)[None]))
        results.append([y_BLD, *torch.autograd.grad(y_BLD.pow(2).sum(), list(part.parameters()))])
    for here, there in zip(*results, strict=True):
        torch.testing.assert_close(here, there)


@pytest.mark.parametrize("name", BACK)
def test_segments_of_any_length_are_one_pass(name):
    part = attention(BACK[name])
    x_BLD = torch.randn(2, 331, 16, dtype=torch.float64)
    with torch.no_grad():
        whole, _ = part(x_BLD, Scene(torch.arange(331)[None]))
        state, found = None, []
        for start, end in ((0, 2), (2, 200), (200, 201), (201, 331)):
            y_BLD, state = part(x_BLD[:, start:end], Scene(torch.arange(start, end)[None], start=start), state)
            found.append(y_BLD)
    torch.testing.assert_close(torch.cat(found, dim=1), whole)


def test_native_code_is_asked_before_its_twin():
    names = [path.name for path in paths.registered(BANDS)]
    assert names.index("C attention") < names.index("bands of keys (PyTorch)")


@pytest.mark.parametrize("name", ["window", "window both ways", "block_local", "dilated"])
def test_work_is_linear_in_length_and_counted_right(name):
    part = attention((BACK | BOTH)[name])
    slot = Slot(16, Rotary.Config())
    for length in (300, 600):
        with FlopCounterMode(display=False) as counter, torch.no_grad():
            part(torch.randn(1, length, 16, dtype=torch.float64), Scene(torch.arange(length)[None]))
        assert counter.get_total_flops() == part.config.flops(slot, Work(length))
    assert part.config.flops(slot, Work(6400)) < 2.05 * part.config.flops(slot, Work(3200))


def test_a_cache_keeps_no_more_than_the_window_needs():
    part, state = attention(Window.Config(size=4)), None
    with torch.no_grad():
        for start in range(200):
            x_BLD = torch.randn(1, 1, 16, dtype=torch.float64)
            _, state = part(x_BLD, Scene(torch.tensor([[start]]), start=start), state)
    assert state.k.buffer.shape[2] <= 16


def test_random_blocks_stay_as_a_text_grows():
    pattern = Random.Config(block=8, blocks=3)
    long, short = (seen_by_predicate(pattern, n, 0, 0) for n in (500, 100))
    assert torch.equal(long[:, :100, :100], short)
    assert not torch.equal(long[0], long[1]), "heads draw blocks of their own"
    assert pattern.at(0, 2) != pattern.at(1, 2), "and so do layers"


def test_no_global_token_sees_the_future_of_a_causal_pattern():
    for name in ("global", "bigbird", "longformer"):
        assert not seen_by_predicate(BACK[name], 100, 0, 0).triu(1).any()


def test_layers_take_turns():
    config = sublayer.config(
        "gpt2", layout="(sf)x4", **{"s.pattern": ByLayer.Config(members=(Window.Config(), Causal.Config()))}
    )
    assert [part.pattern.tag for part in config.stack.parts if part.attends] == ["window", "causal"] * 2


def test_longformer_windows_grow_with_depth():
    pattern = Longformer.Config(size=512, smallest=32, dilation=2)
    assert [pattern.at(n, 4).reach for n in range(4)] == [31, 191, 2 * 351, 2 * 511]


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (lambda: BlockLocal2D.Config(width=30, columns=8), "width=30.*columns=8.*divisor"),
        (lambda: Blockwise.Config(orders=((0, 1), (0, 1, 2))), r"\[0, 1, 2\] is no permutation of 2 blocks"),
        (lambda: Fixed.Config(stride=8, summary=9), "summary=9.*8 tokens"),
        (lambda: Global.Config(first=0), "nobody is chosen"),
        (lambda: Global.Config(every=4, count=5), "count=5.*every=4"),
    ],
)
def test_what_cannot_be(made, message):
    with pytest.raises((ConfigError, ValueError), match=message):
        made()


@pytest.mark.parametrize(
    ("pattern", "length", "message"),
    [
        (Strided.Config(stride=65), 64, "stride=65 is longer than a text of 64 tokens"),
        (Fixed.Config(stride=65, use="by_layer"), 64, "stride=65 is longer"),
        (Global.Config(first=65), 64, "first=65: more than the 64"),
        (Causal.Config(of=Global.Config(first=0, every=65)), 64, "every=65.*no such group"),
        (Longformer.Config(globals=65), 64, "globals=65: more than the 64"),
        (BigBird.Config(block=64, globals=2, look="back"), 127, "globals=2: so many blocks of 64 .* at most 1"),
        (Dilated.Config(by=65), 64, "by=65"),
        (BlockLocal2D.Config(width=128), 64, "width=128"),
        (PerHead.Config(members=(Window.Config(), Strided.Config(stride=65))), 64, "stride=65"),
        (Blockwise.Config(size=20, orders=((1, 0, 2),)), 100, "3 blocks of size=20 divide texts of 60 tokens, got 100"),
    ],
)
def test_texts_that_are_too_short(pattern, length, message):
    with pytest.raises(ValueError, match=message):
        pattern.check_length(length)
    pattern.check_length(1200)


def test_the_letter_is_named_where_texts_are_too_short():
    config = sublayer.config("gpt2", dim=32, layout="(sf)x2", **{"s.heads": 2, "s.pattern": "strided"})
    with pytest.raises(ConfigError, match=r"^s.pattern=strided: stride=128 is longer than a text of 100"):
        config.check_length(100)
    config.check_length(128)


def test_a_pattern_that_counts_tokens_and_a_memory_of_something_else(monkeypatch):
    monkeypatch.setattr(Cache.Config, "slots", lambda self, tokens: tokens // 4)
    with pytest.raises(ConfigError, match="pattern=dilated counts tokens, and the slots of memory=cache are not"):
        MultiHead.Config(pattern=Dilated.Config())
    MultiHead.Config(pattern=Window.Config())


def test_more_patterns_than_heads():
    with pytest.raises(ConfigError, match="3 patterns for 2 heads"):
        sublayer.config("gpt2", dim=32, **{"s.heads": 2, "s.pattern": PerHead.Config(members=(Window.Config(),) * 3)})


@pytest.mark.parametrize("span", ["full", {"kind": "adaptive", "limit": 4, "ramp": 2, "start": 0.25}], ids=str)
def test_work_after_a_memory_is_counted_where_layers_store_different_tokens(span):
    """The tokens that are stored begin elsewhere than the text, and in one layer leave some out."""
    by_layer = ByLayer.Config(members=(Window.Config(), Causal.Config(of=Global.Config())))
    config = small(sublayer.config("gpt2")).but({"s.pattern": by_layer, "s.span": span, "position": "none"})
    assert LAWS["cost = count"](Case(config)).holds
