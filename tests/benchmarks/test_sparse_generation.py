"""What the benchmark of sparse generation compares: both engines after one text, and what their states hold."""

import pytest
import sparse_generation as benchmark

from sublayer.generation.native import NativeReader


@pytest.fixture(autouse=True)
def tiny(monkeypatch):
    monkeypatch.setattr(benchmark, "DIM", 32)
    monkeypatch.setattr(benchmark, "LAYERS", 2)


@pytest.mark.parametrize("member", benchmark.MEMBERS)
def test_engines_agree_and_states_are_as_bounded_as_their_member(member):
    kernel, sizes = "s.kernel" in benchmark.MEMBERS[member], []
    for length in (300, 900):
        entered = benchmark.contestants(member, length)
        assert isinstance(entered[0].reader, NativeReader) != kernel
        benchmark.check(entered)
        sizes.append([one.state_bytes for one in entered])
    assert (sizes[0] == sizes[1]) == (kernel or member in ("window", "longformer"))
