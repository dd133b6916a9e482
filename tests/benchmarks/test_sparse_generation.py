"""What the benchmark of sparse generation compares: both engines after one text, and what their states hold."""

import pytest
import sparse_generation as benchmark

from sublayer.generation.native import NativeReader


@pytest.fixture(autouse=True)
def tiny(monkeypatch):
    monkeypatch.setattr(benchmark, "DIM", 32)
    monkeypatch.setattr(benchmark, "LAYERS", 2)


@pytest.mark.parametrize("pattern", benchmark.PATTERNS)
def test_engines_agree_and_states_are_as_bounded_as_their_pattern(pattern):
    sizes = []
    for length in (300, 900):
        pair = benchmark.contestants(pattern, length)
        assert isinstance(pair[0].reader, NativeReader)
        benchmark.check(pair)
        sizes.append([one.state_bytes for one in pair])
    assert (sizes[0] == sizes[1]) == (pattern in ("window", "longformer"))
