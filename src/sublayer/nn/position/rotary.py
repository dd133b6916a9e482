"""Queries and keys turned by an angle proportional to their place, so that their product knows only the distance."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from sublayer.nn.config import Positive
from sublayer.nn.position.base import Position
from sublayer.nn.scene import Scene


class Rotary(Position):
    """q_i·k_j = (R_i q)·(R_j k) = q·R_{j−i} k, angle i·base^(−2e/K) in the e-th plane (Su et al. 2021, eq. 15).

    Deviations from the paper: feature e turns with feature e + K/2 (as in Llama), not with its neighbour; a fixed
    permutation of features, absorbed by W_q and W_k.
    """

    class Config(Position.Config, tag="rotary"):
        base: Positive = 10000.0
        """The longest wavelength is 2π·base."""

        def build_layer(self, dim: int, heads: int, head_dim: int, shared: Position | None) -> Position:
            return Rotary(self, head_dim)

        def check(self, dim: int, heads: int, head_dim: int) -> None:
            if head_dim % 2:
                raise ValueError(f"rotary turns features in pairs, got head size {head_dim}; use an even head size")

    def __init__(self, config: Config, head_dim: int) -> None:
        super().__init__()
        self.base, self.head_dim = config.base, head_dim

    def query(self, q_BHLK: Float[Tensor, "B H L K"], scene: Scene) -> Float[Tensor, "B H L K"]:
        return self._turn(q_BHLK, scene, memory=0)

    def key(self, k_BGMK: Float[Tensor, "B G M K"], scene: Scene, memory: int) -> Float[Tensor, "B G M K"]:
        return self._turn(k_BGMK, scene, memory)

    def _turn(self, x_BHMK: Tensor, scene: Scene, memory: int) -> Tensor:
        key = ("rotary", self.base, self.head_dim, memory, x_BHMK.dtype)
        cos_B1MK, sin_B1MK = scene.once(key, lambda: self.angles(scene.positions(memory), x_BHMK.dtype))
        half = self.head_dim // 2
        # [−second half, first half] is roll with a sign; the sign sits in the sine table.
        return x_BHMK * cos_B1MK + torch.roll(x_BHMK, half, dims=-1) * sin_B1MK

    def angles(self, i_BM: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        half = torch.arange(0, self.head_dim, 2, device=i_BM.device, dtype=torch.float64) / self.head_dim
        angle_B1ME = (i_BM[..., None].to(torch.float64) * self.base**-half)[:, None]
        cos, sin = angle_B1ME.cos(), angle_B1ME.sin()
        return torch.cat([cos, cos], dim=-1).to(dtype), torch.cat([-sin, sin], dim=-1).to(dtype)
