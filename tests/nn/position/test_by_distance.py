"""A bias by distance is the bias of the matrix: both hooks of a position say the same."""

import pytest
import torch

from sublayer.nn.attention.along import Terms
from sublayer.nn.attention.bands import dense
from sublayer.nn.position import Position
from sublayer.nn.scene import Scene
from sublayer.testing.small import small_member

DIM, HEADS, K = 24, 3, 8
KNOWN = sorted(
    tag
    for tag, kind in Position.Config.registry.items()
    if kind.__module__.startswith("sublayer.") and kind.parse(tag).build_layer(DIM, HEADS, K, None).biases_by_distance
)


def test_some_positions_have_one():
    assert {"alibi", "relative_key", "relative_xl"} <= set(KNOWN)


@pytest.mark.parametrize("tag", KNOWN)
@pytest.mark.parametrize(("L", "memory"), [(1, 0), (7, 0), (5, 9), (1, 12)])
def test_it_is_the_bias_of_the_matrix(tag, L, memory):
    torch.manual_seed(0)
    config = small_member(Position.Config.parse(tag))
    position = config.build_layer(DIM, HEADS, K, config.build(DIM, K).double()).double()
    q_BHLK, far = torch.randn(2, HEADS, L, K, dtype=torch.float64), memory + L - 1
    scene = Scene(torch.arange(memory, memory + L)[None], start=memory)
    matrix = position.bias(q_BHLK, scene, memory, 0.3, None).expand(2, -1, -1, -1)
    by_distance = position.by_distance(q_BHLK, far, 0, 0.3, None).expand(2, -1, L, -1)
    zero = Terms((dense(L, memory, causal=True),), zero=far - memory).zero
    for i in range(L):
        for j in range(memory + i + 1):
            torch.testing.assert_close(by_distance[:, :, i, zero + j - i], matrix[:, :, i, j])
