"""Relative positions as trained vectors on keys and on values, clipped at a distance."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn

from sublayer.nn.config import Count
from sublayer.nn.linear import DEVIATION
from sublayer.nn.position.base import Position, distances
from sublayer.nn.scene import Scene


class Shaw(Position):
    """e_ij = q_i·(k_j + a^K_ij)/√K, z_i = Σ α_ij (v_j + a^V_ij), a_ij = w_clip(j−i, ±clip) (Shaw et al. 2018, eq. 3–4).

    The vectors are shared by the heads of a layer and not by layers, as in the paper.
    """

    class Config(Position.Config, tag="shaw"):
        clip: Count = 16
        """Distances beyond this share one vector."""

        def build_layer(self, dim: int, heads: int, head_dim: int, shared: Position | None) -> Position:
            return Shaw(self, head_dim)

        def layer_params(self, dim: int, heads: int, head_dim: int) -> int:
            return 2 * (2 * self.clip + 1) * head_dim

        def layer_flops(self, heads: int, head_dim: int, dim: int, length: int, attended: int, frozen: bool) -> int:
            return 2 * 2 * length * heads * (2 * self.clip + 1) * head_dim

    def __init__(self, config: Config, head_dim: int) -> None:
        super().__init__()
        self.clip = config.clip
        self.key_RK = nn.Parameter(torch.empty(2 * config.clip + 1, head_dim).normal_(std=DEVIATION))
        self.value_RK = nn.Parameter(torch.empty(2 * config.clip + 1, head_dim).normal_(std=DEVIATION))

    def bias(
        self, q_BHLK: Float[Tensor, "B H L K"], scene: Scene, memory: int, scale: float, table: Tensor | None
    ) -> Float[Tensor, "B H L M"]:
        edge_B1LM = self._edges(scene, memory)
        scores_BHLR = (q_BHLK * scale) @ self.key_RK.T
        return scores_BHLR.gather(-1, edge_B1LM.expand(*q_BHLK.shape[:2], -1, -1))

    def value(self, weights_BHLM: Float[Tensor, "B H L M"], scene: Scene, memory: int) -> Float[Tensor, "B H L K"]:
        edge_B1LM = self._edges(scene, memory).expand_as(weights_BHLM)
        weights_BHLR = weights_BHLM.new_zeros(*weights_BHLM.shape[:3], len(self.value_RK))
        return weights_BHLR.scatter_add(-1, edge_B1LM, weights_BHLM) @ self.value_RK

    def _edges(self, scene: Scene, memory: int) -> Tensor:
        return scene.once(
            ("shaw", self.clip, memory),
            lambda: ((-distances(scene, memory)).clamp(-self.clip, self.clip) + self.clip)[:, None],
        )
