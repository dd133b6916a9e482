"""Transformer-XL's relative positions: four terms, two of them global, with the distance as a projected sinusoid."""

from __future__ import annotations

from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn

from sublayer.nn.config import Count, Rate
from sublayer.nn.linear import DEVIATION, linear
from sublayer.nn.position.base import Position, distances, farthest
from sublayer.nn.position.sinusoidal import sinusoid
from sublayer.nn.scene import Scene


class RelativeXL(Position):
    """a_ij = (q_i + u)·k_j + (q_i + v)·W_r R_{i−j}, all over √K (Dai et al. 2019, section 3.3).

    u, v are D-vectors, seen as one K-vector a head, so that the number of heads may differ between layers.
    """

    class Config(Position.Config, tag="relative_xl"):
        both_ways = False
        added = frozenset({"dropout"})
        scope: Literal["stack", "layer"] = "stack"
        """Whether the stack has one pair u, v, or each layer its own."""
        clamp: Count | None = None
        """Distances beyond this share one vector (clamp_len); None for no limit."""
        dropout: Rate = 0.0
        """On the sinusoids of distances, as the authors' code has it."""

        def build(self, dim: int, head_dim: int) -> Position:
            return GlobalTerms(dim) if self.scope == "stack" else Position()

        def build_layer(self, dim: int, heads: int, head_dim: int, shared: Position | None) -> Position:
            terms = shared if self.scope == "stack" and isinstance(shared, GlobalTerms) else None
            return RelativeXL(self, dim, heads, head_dim, terms)

        def params(self, dim: int, head_dim: int) -> int:
            return 2 * dim if self.scope == "stack" else 0

        def layer_params(self, dim: int, heads: int, head_dim: int) -> int:
            return dim * heads * head_dim + (2 * dim if self.scope == "layer" else 0)

        def layer_flops(self, heads: int, head_dim: int, dim: int, length: int, attended: int, frozen: bool) -> int:
            project = 0 if frozen else 2 * attended * dim * heads * head_dim
            return project + 2 * length * attended * heads * head_dim

        def check(self, dim: int, heads: int, head_dim: int) -> None:
            if heads * head_dim != dim:
                raise ValueError(
                    f"relative_xl has u and v of the model's width {dim}, got {heads} heads of {head_dim}; "
                    f"make heads × head_dim = {dim}"
                )

    def __init__(self, config: Config, dim: int, heads: int, head_dim: int, terms: GlobalTerms | None) -> None:
        super().__init__()
        self.dim, self.heads, self.head_dim, self.clamp = dim, heads, head_dim, config.clamp
        self.drop = nn.Dropout(config.dropout) if config.dropout else nn.Identity()
        self.project = linear(dim, heads * head_dim, bias=False)
        if terms is None:
            self.own = GlobalTerms(dim)
        # A plain reference: the stack owns the shared terms, and a module registered twice would be saved twice.
        object.__setattr__(self, "terms", self.own if terms is None else terms)

    terms: GlobalTerms

    def query(self, q_BHLK: Float[Tensor, "B H L K"], scene: Scene) -> Float[Tensor, "B H L K"]:
        return q_BHLK + self._by_head(self.terms.u_D)

    def table(self, distances: int) -> Float[Tensor, "H K R"]:
        """W_r R_d for d = distances−1 … 0, by head, ready to be multiplied."""
        weight = self.project.weight
        d_R = torch.arange(distances - 1, -1, -1, device=weight.device)
        d_R = d_R if self.clamp is None else d_R.clamp(max=self.clamp)
        r_RD = self.project(self.drop(sinusoid(d_R, self.dim, weight.dtype)))
        return r_RD.view(distances, self.heads, self.head_dim).permute(1, 2, 0)

    def bias(
        self, q_BHLK: Float[Tensor, "B H L K"], scene: Scene, memory: int, scale: float, table: Tensor | None
    ) -> Float[Tensor, "B H L M"]:
        attended = memory + scene.length
        reach = attended if scene.even else farthest(scene, memory) + 1
        r_HKR = self.table(reach) if table is None or table.shape[-1] < reach else table[..., -reach:]
        by_distance_BHLR = ((q_BHLK + self._by_head(self.terms.v_D)) * scale) @ r_HKR
        if scene.even:
            return skew(by_distance_BHLR)
        column_B1LM = (reach - 1 - distances(scene, memory)).clamp(0, reach - 1)[:, None]
        return by_distance_BHLR.gather(-1, column_B1LM.expand(*q_BHLK.shape[:2], -1, -1))

    def by_distance(
        self, q_BHLK: Float[Tensor, "B H L K"], far: int, ahead: int, scale: float, table: Tensor | None
    ) -> Float[Tensor, "B H L R"]:
        r_HKR = self.table(far + 1) if table is None or table.shape[-1] <= far else table[..., -far - 1 :]
        return ((q_BHLK + self._by_head(self.terms.v_D)) * scale) @ r_HKR

    def _by_head(self, w_D: Tensor) -> Tensor:
        return w_D.view(self.heads, 1, self.head_dim)


class GlobalTerms(Position):
    """u and v: vectors added to every query, for content and for distance."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.u_D = nn.Parameter(torch.empty(dim).normal_(std=DEVIATION))
        self.v_D = nn.Parameter(torch.empty(dim).normal_(std=DEVIATION))


def skew(by_distance_BHLM: Float[Tensor, "B H L M"]) -> Float[Tensor, "B H L M"]:
    """From column = distance (falling to 0) to column = key: row a moves left by L−1−a. What moves in is future.

    One column of padding and a reshape do it: in the padded flat array, each row starts one entry later.
    """
    B, H, L, M = by_distance_BHLM.shape
    padded = nn.functional.pad(by_distance_BHLM, (1, 0)).view(B, H, M + 1, L)
    return padded[:, :, 1:].view(B, H, L, M)
