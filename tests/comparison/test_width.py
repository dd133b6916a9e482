"""Equal parameters: the nearest width, with all else in proportion."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

import sublayer
from sublayer.comparison.width import FAR, apart, of_params, widened
from sublayer.nn.config import ConfigError

SMALL = {"layout": "(sf)x3", "s.heads": 2, "vocab": 300}


@given(
    st.sampled_from(["gpt2", "llama", "transformer-lm", "transformer-xl-24"]),
    st.integers(200_000, 5_000_000),
)
def test_no_other_width_is_nearer(paper, target):
    found = of_params(sublayer.config(paper, {**SMALL, **({"position.limit": 64} if paper == "gpt2" else {})}), target)
    assert abs(apart(found, target)) <= FAR
    for step in (-4, 4):
        other = widened(found, found.dim + step)
        assert abs(apart(found, target)) <= abs(apart(other, target)) + 1e-3  # inner widths are rounded, too


def test_what_has_a_size_of_its_own_goes_along():
    config = sublayer.config(
        "transformer-lm", {"s.heads": 4, "f.inner": [512, 1024, 2048], "layout": "(sf)x3"}, dim=512
    )
    wide = widened(config, 1024)
    assert wide.stack.vary == {"f.inner": [1024, 2048, 4096]}
    assert widened(config.but({"s.head_dim": 32}), 256).stack.alphabet["s"].head_dim == 16
    assert widened(wide, 512) == config
    assert widened(sublayer.config("gpt2"), 96).stack.alphabet["f"].inner is None


def test_what_cannot_be_is_told_in_a_line():
    many = sublayer.config("gpt2", {**SMALL, "s.heads": 16})
    with pytest.raises(
        ConfigError, match=r"no width gives 10,000 parameters: the nearest, dim=32, has .*multiples of 32"
    ):
        of_params(many, 10_000)


def test_widths_fit_the_heads():
    found = of_params(sublayer.config("gpt2", {**SMALL, "s.heads": [3, 4, 6]}, position="rotary"), 2_000_000)
    assert found.dim % 24 == 0
    found.cost()
