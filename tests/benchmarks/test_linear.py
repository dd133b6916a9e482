"""What the benchmark of linear attention compares: our paths are their twins, and goals name contestants that run."""

import linear as benchmark
import passes
import pytest
import torch


@pytest.mark.parametrize("name", [benchmark.LINEAR, benchmark.RETENTION])
def test_the_twin_gives_what_our_path_gives(name):
    torch.manual_seed(0)
    q, k, v = (torch.randn(1, passes.HEADS, 128, passes.HEAD) for _ in range(3))
    ours, twin = (benchmark.ours(one, 128)(q, k, v) for one in (name, f"{name}, {benchmark.TWIN}"))
    torch.testing.assert_close(ours, twin, atol=1e-4, rtol=0)


def test_goals_name_contestants():
    assert {name for ours, peer, _, _ in benchmark.GOALS for name in (ours, peer)} <= set(benchmark.NAMES)
    assert set(benchmark.TWINS) <= {f"{name}, {benchmark.TWIN}" for name in benchmark.KERNELS}


def test_growth_is_a_power_of_the_length():
    assert passes.growth(3.0, 3.0 * 4**1.5) == pytest.approx(1.5)
