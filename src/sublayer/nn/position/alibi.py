"""Attention with linear biases: nearer keys are preferred, each head at its own rate."""

from __future__ import annotations

import math

import torch
from jaxtyping import Float
from torch import Tensor

from sublayer.nn.config import Positive
from sublayer.nn.position.base import Position, distances
from sublayer.nn.scene import Scene


def slopes(heads: int, base: float) -> list[float]:
    """2^(−base·h/H) for h = 1 … H; between two powers of two, every other slope of the finer series fills up."""
    power = 2 ** math.floor(math.log2(heads))
    coarse = [2 ** (-base * h / power) for h in range(1, power + 1)]
    finer = [2 ** (-base * h / (2 * power)) for h in range(1, 2 * power + 1, 2)]
    return coarse + finer[: heads - power]


class Alibi(Position):
    """A constant penalty on attention scores, linear in distance (Press et al. 2022, section 3).

    Deviations from the paper: none; head counts that are not powers of two interleave two series, as its code does.
    Bidirectional attention uses the absolute distance.
    """

    bias_is_constant = True

    class Config(Position.Config, tag="alibi"):
        base: Positive = 8.0
        """Head h of H gets slope 2^(−base·h/H)."""

        def build_layer(self, dim: int, heads: int, head_dim: int, shared: Position | None) -> Position:
            return Alibi(self, heads)

    def __init__(self, config: Config, heads: int) -> None:
        super().__init__()
        self.heads, self.base = heads, config.base

    def bias(
        self, q_BHLK: Float[Tensor, "B H L K"], scene: Scene, memory: int, scale: float, table: Tensor | None
    ) -> Float[Tensor, "#B H L M"]:
        key = ("alibi", self.heads, self.base, memory, q_BHLK.dtype)
        return scene.once(key, lambda: self._penalty(scene, memory, q_BHLK))

    def by_distance(
        self, q_BHLK: Float[Tensor, "B H L K"], far: int, ahead: int, scale: float, table: Tensor | None
    ) -> Float[Tensor, "1 H 1 R"]:
        slope_H11 = torch.tensor(slopes(self.heads, self.base), device=q_BHLK.device, dtype=q_BHLK.dtype)[:, None, None]
        return (-slope_H11 * torch.arange(far, -ahead - 1, -1, device=q_BHLK.device).abs())[None]

    def _penalty(self, scene: Scene, memory: int, like: Tensor) -> Tensor:
        slope_H = torch.tensor(slopes(self.heads, self.base), device=like.device, dtype=like.dtype)
        return -slope_H[:, None, None] * distances(scene, memory)[:, None].abs()
