"""Relative positions as trained vectors on keys, for looking back only; one table for all layers and heads."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn

from sublayer.nn.config import Count
from sublayer.nn.linear import DEVIATIONS, Spread
from sublayer.nn.position.base import Position, distances
from sublayer.nn.scene import Scene


class RelativeKey(Position):
    """e_ij = q_i·(k_j + a_{i−j})/√K: Shaw's keys, shared by the whole stack (Fan et al. 2020, section 7.6)."""

    class Config(Position.Config, tag="relative_key"):
        both_ways = False
        one_head_dim = True
        clip: Count = 512
        """Distances beyond this share one vector."""
        spread: Spread = "fixed"
        """Initial deviation of the vectors: 0.02, or 1, with which each head prefers distances of its own from the
        first step on."""

        def build(self, dim: int, head_dim: int) -> Position:
            return KeyTable(self, head_dim)

        def build_layer(self, dim: int, heads: int, head_dim: int, shared: Position | None) -> Position:
            return RelativeKey(self, head_dim, shared if isinstance(shared, KeyTable) else None)

        def params(self, dim: int, head_dim: int) -> int:
            return (self.clip + 1) * head_dim

        def layer_flops(self, heads: int, head_dim: int, dim: int, length: int, attended: int, frozen: bool) -> int:
            return 2 * length * heads * head_dim * min(attended, self.clip + 1)

    def __init__(self, config: Config, head_dim: int, shared: KeyTable | None) -> None:
        super().__init__()
        if shared is None:
            self.own = KeyTable(config, head_dim)
        # A plain reference: the stack owns the table, and a module registered twice would be saved twice.
        object.__setattr__(self, "shared", self.own if shared is None else shared)

    shared: KeyTable

    def bias(
        self, q_BHLK: Float[Tensor, "B H L K"], scene: Scene, memory: int, scale: float, table: Tensor | None
    ) -> Float[Tensor, "B H L M"]:
        rows = min(memory + scene.length, self.shared.clip + 1) if scene.even else self.shared.clip + 1
        scores_BHLR = (q_BHLK * scale) @ self.shared.key_RK[:rows].T
        edge_B1LM = scene.once(
            ("relative_key", rows, memory), lambda: distances(scene, memory).clamp(0, rows - 1)[:, None]
        )
        return scores_BHLR.gather(-1, edge_B1LM.expand(*q_BHLK.shape[:2], -1, -1))

    def by_distance(
        self, q_BHLK: Float[Tensor, "B H L K"], far: int, ahead: int, scale: float, table: Tensor | None
    ) -> Float[Tensor, "B H L R"]:
        rows = min(far, self.shared.clip) + 1
        at_R = torch.arange(far, -ahead - 1, -1, device=q_BHLK.device).clamp(0, rows - 1)
        return ((q_BHLK * scale) @ self.shared.key_RK[:rows].T).index_select(-1, at_R)


class KeyTable(Position):
    """a_0 … a_clip."""

    def __init__(self, config: RelativeKey.Config, head_dim: int) -> None:
        super().__init__()
        self.clip = config.clip
        self.key_RK = nn.Parameter(torch.empty(config.clip + 1, head_dim).normal_(std=DEVIATIONS[config.spread]))
