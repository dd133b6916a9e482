"""Queries and keys rotated by an angle proportional to their position: their product depends on the distance."""

from __future__ import annotations

from typing import Annotated

import torch
from jaxtyping import Float
from pydantic import Field
from torch import Tensor

from sublayer.nn.config import Positive
from sublayer.nn.position.base import Position
from sublayer.nn.position.rotary_scaling import RotaryScaling
from sublayer.nn.scene import Scene


class Rotary(Position):
    """q_i·k_j = (R_i q)·(R_j k) = q·R_{j−i} k, angle i·base^(−2e/K) in the e-th plane (Su et al. 2021, eq. 15).

    Deviations from the paper: feature e turns with feature e + K/2 (as in Llama), not with its neighbour; a fixed
    permutation of features, absorbed by W_q and W_k. So too where a part of the features turns: they are the first
    planes of K/2, with angles i·base^(−2e/(partial·K)); in GPT-NeoX they are the first features.
    """

    class Config(Position.Config, tag="rotary"):
        added = frozenset({"scaling", "partial"})

        base: Positive = 10000.0
        """The longest wavelength is 2π·base."""
        scaling: RotaryScaling.Config | None = None
        """Changed frequencies, to read longer texts than in training; None: unchanged."""
        partial: Annotated[float, Field(gt=0, le=1)] = 1.0
        """Share of a head's features that are rotated; the others carry no position."""

        def build_layer(self, dim: int, heads: int, head_dim: int, shared: Position | None) -> Position:
            return Rotary(self, head_dim)

        def width(self, head_dim: int) -> int:
            """Number of features that are rotated."""
            return int(head_dim * self.partial)

        def check(self, dim: int, heads: int, head_dim: int) -> None:
            width = self.width(head_dim)
            if head_dim % 2:
                raise ValueError(f"rotary turns features in pairs, got head size {head_dim}; use an even head size")
            if width % 2 or not width:
                raise ValueError(
                    f"rotary turns features in pairs, got {width} of head size {head_dim} with partial={self.partial}; "
                    f"use a share that gives an even number, such as {max(2, width - 1) / head_dim:g}"
                )
            if self.scaling is not None:
                self.scaling.check(self.base, width)

    def __init__(self, config: Config, head_dim: int) -> None:
        super().__init__()
        self.config, self.base, self.head_dim = config, config.base, head_dim
        self.kind = config.base, config.scaling, config.partial, head_dim
        """Equal for positions with equal angles, so that they can share a table."""

    def query(self, q_BHLK: Float[Tensor, "B H L K"], scene: Scene) -> Float[Tensor, "B H L K"]:
        return self._turn(q_BHLK, scene, memory=0)

    def key(self, k_BGMK: Float[Tensor, "B G M K"], scene: Scene, memory: int) -> Float[Tensor, "B G M K"]:
        return self._turn(k_BGMK, scene, memory)

    def _turn(self, x_BHMK: Tensor, scene: Scene, memory: int) -> Tensor:
        key = ("rotary", self.kind, memory, x_BHMK.dtype)
        cos_B1MK, sin_B1MK = scene.once(key, lambda: self.angles(scene.positions(memory), x_BHMK.dtype))
        half = self.head_dim // 2
        # [−second half, first half] is roll with a sign; the sign sits in the sine table.
        return x_BHMK * cos_B1MK + torch.roll(x_BHMK, half, dims=-1) * sin_B1MK

    def angles(self, i_BM: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        """Cosines and signed sines of every position and feature, (B, 1, M, K)."""
        angle_B1ME = self._angles(i_BM.to(torch.float64))[:, None]
        cos, sin = angle_B1ME.cos(), angle_B1ME.sin()
        if self.config.scaling is not None and self.config.scaling.amplitude != 1:
            cos, sin = cos * self.config.scaling.amplitude, sin * self.config.scaling.amplitude
        if rest := self.head_dim // 2 - cos.shape[-1]:  # planes that are not rotated
            cos = torch.cat([cos, cos.new_ones(*cos.shape[:-1], rest)], dim=-1)
            sin = torch.cat([sin, sin.new_zeros(*sin.shape[:-1], rest)], dim=-1)
        return torch.cat([cos, cos], dim=-1).to(dtype), torch.cat([-sin, sin], dim=-1).to(dtype)

    def _angles(self, i_BM: Float[Tensor, "B M"]) -> Float[Tensor, "B M E"]:
        width = self.config.width(self.head_dim)
        if self.config.scaling is not None:
            return self.config.scaling.angles(i_BM, self.base, width)
        exponent_E = torch.arange(0, width, 2, device=i_BM.device, dtype=torch.float64) / width
        return i_BM[..., None] * self.base**-exponent_E
